"""What the switch interval gains a program whose learner computes in Python while it serves."""

import sys
import tempfile
from pathlib import Path

from lab.benchmarks.report import Bar, Comparison
from tests.programs.running import free_port
from tuner.api import tune
from tuner.plan.knobs import SWITCH_INTERVAL

PROGRAM = Path(__file__).parents[2] / "tests" / "programs" / "learner_computes.py"
LASTS_S = "1"
SPACE = {SWITCH_INTERVAL.name: "5ms,1ms,0.2ms"}
"""What `record` suggests for it."""
BUDGET = "60s"


def run() -> list[Comparison]:
    """The time per call with what a search recommends, and with Python's own interval."""
    with tempfile.TemporaryDirectory() as folder:
        result = tune(
            program=[sys.executable, "-W", "ignore", str(PROGRAM), LASTS_S, free_port()],
            space=SPACE,
            budget=BUDGET,
            out=Path(folder) / "learner",
        )
    values = {row.config: row.value for row in result.rows}
    assert result.best is not None
    return [
        Comparison(
            name=f"call of a learner that computes, {result.verdict}",
            ours=str(result.best),
            theirs=str(result.baseline),
            ours_value=values[result.best],
            theirs_value=values[result.baseline],
            unit=result.answer.objective.unit,
            bars=(Bar(least_ratio=4.0),),
            interval=result.answer.speedup,
        )
    ]
