"""What is said of each planted trace: `make golden` shows what changes."""

from tests.trace.analyze.driver_scenarios import DRIVERS
from tests.trace.analyze.server_scenarios import SERVERS
from tuner.trace.analyze.diagnosis import Diagnosis, diagnose
from tuner.trace.analyze.failed_calls import SlowestCall, slowest_call

SCENARIOS = {**DRIVERS, **SERVERS}
ROLES = [("env", "east|west")]


def rendered(found: Diagnosis, nearest: SlowestCall | None) -> str:
    """The facts of a diagnosis in a line, and a line per sentence."""
    facts = [
        *(f"{limit.kind} {'/'.join(limit.processes)} {'/'.join(limit.functions)}"
          for limit in found.limits),
        *(f"enough threads of {server}" for server in found.enough_threads),
        *(f"try {suggestion.space}" for suggestion in found.suggestions),
    ]  # fmt: skip
    sentences = [*found.sentences, *([nearest.text] if nearest else [])]
    return "\n".join(["; ".join([found.rule, *facts]), *sentences])


def all_rendered() -> str:
    """All of them, each below its name."""
    traces = {name: planted() for name, planted in SCENARIOS.items()}
    return "\n".join(
        f"# {name}\n{rendered(diagnose(taken, ROLES), slowest_call(taken))}\n"
        for name, taken in traces.items()
    )
