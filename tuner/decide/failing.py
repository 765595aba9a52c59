"""Whether a configuration fails more often than the others: an exact test, at each new failure."""

import math

# Of alpha, for all claims of this kind; what the looks of a first budget leave.
FAILING_SHARE = 0.2


def fails_more(
    failed: int, worlds: int, others_failed: int, others_worlds: int, alpha: float
) -> bool:
    """Whether so many failures are more than chance explains where all fail equally often.

    It is Fisher's exact test. It may be asked again and again, whenever there is another failure:
    at the n-th one it spends alpha / (n (n + 1)), and all of these add up to alpha.

    Args:
        failed: The worlds of the configuration that failed, one at least.
        worlds: All of its worlds.
        others_failed: The worlds of the others that failed.
        others_worlds: All of their worlds.
        alpha: The chance that it ever says so of a configuration that fails as often as the others.
    """
    every, failures = worlds + others_worlds, failed + others_failed
    ways = sum(
        math.comb(failures, here) * math.comb(every - failures, worlds - here)
        for here in range(failed, min(worlds, failures) + 1)
    )
    return ways / math.comb(every, worlds) <= alpha / (failed * (failed + 1))
