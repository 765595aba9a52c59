import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.trace.record.clock import HOST_VARIABLE, ClockSample, boot_id, clock_offset

NOW = 1_700_000_000_000_000_000
delays = st.integers(0, 10**7)
offsets = st.integers(-(10**16), 10**16)


def sample(at: int, there: int, working: int, back: int, offset: int) -> ClockSample:
    """A call sent at `at`, with the delays of each way, to a clock ahead of ours by `offset`."""
    begun = at + there + offset
    return ClockSample(at, begun, begun + working, at + there + working + back)


def samples(offset: int) -> st.SearchStrategy[list[ClockSample]]:
    """Calls with arbitrary delays."""
    waits = st.lists(st.tuples(delays, delays, delays), min_size=1, max_size=8)
    return waits.map(lambda each: [sample(NOW, *delayed, offset) for delayed in each])


@given(st.data(), offsets, st.integers(-(10**9), 10**9))
def test_clocks_that_drifted_are_bounded_at_both_ends(
    data: st.DataObject, offset: int, drift: int
) -> None:
    before, after = data.draw(samples(offset)), data.draw(samples(offset + drift))
    clock = clock_offset(before, after)
    assert abs(clock.offset_ns - offset) <= clock.error_ns
    assert abs(clock.offset_ns - (offset + drift)) <= clock.error_ns


def test_the_error_is_half_of_the_shortest_round_trip() -> None:
    found = clock_offset(
        [sample(NOW, 300, 50, 100, 5000), sample(NOW + 10**6, 100, 0, 300, 5000)],
        [sample(NOW + 10**9, 100, 0, 100, 5000)],
    )
    # The samples allow at most 300 and 100 ns more than 5000, and at most 100 and 300 ns less.
    assert found == (5000, 100)


def test_processes_of_two_hosts_share_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    here = boot_id()
    monkeypatch.setenv(HOST_VARIABLE, "elsewhere")
    assert boot_id() != here
