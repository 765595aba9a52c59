"""What `--dry-run` prints."""

from tuner.searching.forecasting import Forecast
from tuner.text import duration, percent, plural, rough_duration, share


def forecast_lines(found: Forecast, epsilon: float) -> list[str]:
    """What the search would do, and what its budget can be expected to show.

    Args:
        found: The forecast.
        epsilon: The smallest difference that matters, a fraction.
    """
    budget = duration(found.budget_s)
    lines = [
        f"{plural(found.configs, 'configuration')}, the baseline included.",
        f"A world takes {duration(found.world_s)}, so a block of all of them "
        f"{duration(found.block_s)}.",
    ]
    if found.sampler == "grid":
        lines.append("The whole grid would be measured.")
    else:
        lines.append(
            f"{budget} is too little to measure the grid: {found.sampler} would propose what to "
            "try."
        )
    spread = (
        f"Worlds of the baseline differ by {share(found.sigma)} ({found.worlds} of them, after the "
        "first)"
    )
    if found.blocks < 3:
        return [*lines, f"{spread}, and {budget} has no time for a comparison: {_enough(found)}."]
    gain = f"a gain of about {share(found.least_gain)}"
    if found.least_gain <= epsilon:
        enough = f"which is less than epsilon, {percent(epsilon)}: enough to decide"
    else:
        factor = (found.least_gain / epsilon) ** 2
        enough = (
            f"more than epsilon, {percent(epsilon)}: to decide a close race takes about "
            f"{duration(found.budget_s * factor)}"
        )
    first = "calibration and" if found.sampler == "grid" else "calibration, exploration and"
    told = (
        f"{spread}, and after {first} tracing {budget} leaves time for about "
        f"{plural(found.blocks, 'block')}, each with the baseline twice: these can show"
    )
    return [*lines, f"{told} {gain}, {enough}."]


def _enough(found: Forecast) -> str:
    """What to do about a budget that is too short for a comparison."""
    if found.sampler != "grid":
        return "give it more"
    # The first worlds, three blocks with the baseline twice, and two traces; and some to spare.
    worlds = found.configs + 3 * (found.configs + 1) + 2
    return f"give it {rough_duration(1.2 * worlds * found.world_s)} or more, or try fewer values"
