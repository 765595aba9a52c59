"""How far another process's clock is from ours, from small calls there and back."""

from typing import NamedTuple


class ClockSample(NamedTuple):
    """One call: sent and answered by our clock, begun and ended by theirs. Unix nanoseconds."""

    sent_ns: int
    begun_ns: int
    ended_ns: int
    answered_ns: int


class ClockOffset(NamedTuple):
    """Their clock minus ours: true to within `error_ns` either way."""

    offset_ns: int
    error_ns: int


SAME_CLOCK = ClockOffset(0, 0)


def offset_bounds(samples: list[ClockSample]) -> tuple[int, int]:
    """The least and the greatest offset that all samples allow.

    A request cannot arrive before it was sent, so the offset is at most `begun - sent`; nor an
    answer, so it is at least `ended - answered`.
    """
    return (
        max(sample.ended_ns - sample.answered_ns for sample in samples),
        min(sample.begun_ns - sample.sent_ns for sample in samples),
    )


def clock_offset(before: list[ClockSample], after: list[ClockSample]) -> ClockOffset:
    """The offset from samples taken before and after a trace, and its bound.

    The clocks may drift apart meanwhile: the bound holds all that either set of samples allows.
    """
    limits = [limit for samples in (before, after) for limit in offset_bounds(samples)]
    low, high = min(limits), max(limits)
    return ClockOffset((low + high) // 2, (high - low + 1) // 2)
