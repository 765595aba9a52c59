"""Words and numbers of the diagnosis."""

from collections.abc import Sequence

from tuner.text import first_of, listed, plural, three_digits, whole_percent
from tuner.trace.analyze.evidence import Evidence
from tuner.trace.analyze.rules.thresholds import SEVERAL

MOST_NAMED = 3
"""Processes, or functions, that are named."""
WAITS_FOR = "I/O, a lock, the GIL or a call that is not recorded"
"""What a thread that is off the CPU may wait for: calls of scripts never pass through Python."""
MOVE_WORK = "Move work into longer operators, which release the GIL, or to more processes."


def serving(found: Evidence) -> str:
    """How the server ran its calls: the beginning of a sentence."""
    use = found.use
    how = "in parallel" if use.parallelism >= SEVERAL else "one after another"
    on_threads = f"parallelism {number(use.parallelism)} on {plural(found.pool, 'thread')}"
    busy = f"busy {whole_percent(use.busy_fraction)} of the time"
    return f"{found.server} ran its calls {how} ({on_threads}, {busy})"


def waiting(found: Evidence) -> str:
    """How the server ran its calls while others waited; the caller adds what follows from it."""
    waited = f"while each waited {short_time(found.means.queue_us)} for a thread"
    return f"{serving(found)} {waited} ({whole_percent(found.means.queue_share)} of its latency)"


def logical_cpus(used: float, of: int | None = None) -> str:
    """`2 of 4 logical CPUs`; `0.8 logical CPUs` without `of`."""
    if of is not None:
        return f"{number(used)} of {plural(of, 'logical CPU')}"
    return "1 logical CPU" if number(used) == "1" else f"{number(used)} logical CPUs"


def few_named(names: Sequence[str]) -> str:
    """`a and b`, or `a, b, c, 4 more`."""
    return listed(names) if len(names) <= MOST_NAMED else first_of(names, MOST_NAMED)


def number(value: float) -> str:
    """A small number with two decimals at most."""
    return three_digits(round(value, 2))


def short_time(us: float) -> str:
    """Three digits, in us, ms or s."""
    if us < 1e3:
        return f"{number(us)} us"
    return f"{number(us / 1e3)} ms" if us < 1e6 else f"{number(us / 1e6)} s"


def size_text(size_bytes: float) -> str:
    """Three digits, in bytes, kB or MB."""
    if size_bytes < 1e3:
        return f"{number(size_bytes)} bytes"
    return (
        f"{number(size_bytes / 1e3)} kB" if size_bytes < 1e6 else f"{number(size_bytes / 1e6)} MB"
    )
