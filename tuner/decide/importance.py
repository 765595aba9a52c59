"""How much of the differences between measured values each factor explains."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

# Rounding alone is no variance.
_LEAST_VARIANCE = 1e-18


def variance_shares(
    factors: Mapping[str, Sequence[Hashable]], log_values: Sequence[float]
) -> dict[str, float]:
    """The share of the variance of values that each factor alone explains (eta squared).

    It is the variance between the means of a factor's levels, weighted by how many values have
    each level, over the variance of all values. What the shares leave is interactions and noise,
    which they do not tell apart. On a grid with holes the factors overlap, and the shares can add
    up to more than 1. A factor with nearly as many levels as there are values explains much by
    chance.

    Args:
        factors: The level of each value, by the factor's name.
        log_values: Logarithms of what was measured.

    Returns:
        Shares from 0 to 1 by the factor's name, largest first.
    """
    logs = np.asarray(log_values, dtype=float)
    total = float(np.square(logs - logs.mean()).sum()) if len(logs) else 0.0
    shares: dict[str, float] = {}
    for name, levels in factors.items():
        groups: dict[Hashable, list[float]] = {}
        for level, value in zip(levels, logs, strict=True):
            groups.setdefault(level, []).append(float(value))
        between = sum(
            len(group) * (float(np.mean(group)) - float(logs.mean())) ** 2
            for group in groups.values()
        )
        shares[name] = min(1.0, between / total) if total > _LEAST_VARIANCE else 0.0
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
