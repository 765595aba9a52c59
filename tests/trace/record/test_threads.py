"""Time on the run queue, from two readings of the kernel's counter."""

import pytest

from tuner.trace.record.threads import waited_ns


@pytest.mark.parametrize(
    ("before", "after", "waited"),
    [
        (b"10 1000 1", b"20 1500 2", 500),
        (b"10 1000 1", b"20 9000 2", 800),  # more than there was: read outside of the call
        (b"10 1000 1", b"20 990 2", 0),  # a clock that differs stepped it back
        (b"10 1000 1", b"20 18446744073709551000 2", 0),  # to below 0
        (b"10 18446744073709551000 1", b"20 84 2", 700),  # and from there on
        (b"", b"20 1500 2", None),
    ],
)
def test_the_wait_for_a_cpu(before: bytes, after: bytes, waited: int | None) -> None:
    assert waited_ns(before, after, at_most_ns=800) == waited
