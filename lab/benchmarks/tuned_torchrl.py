"""What tuning gains under TorchRL's RPC collector, whose users cannot set its RPC options."""

import math
import tempfile
from pathlib import Path

from lab.benchmarks.own_venv import installed_python
from lab.benchmarks.report import Bar, Comparison
from tuner.api import tune
from tuner.present.study_result import StudyResult

PROGRAM = Path(__file__).with_name("torchrl_collector.py")
COLLECTORS, BATCHES = 2, 40
SPACE = {"num_worker_threads": [1, 2, 4, 8, 16], "transports": ["uv", "shm+uv"]}
BUDGET = "10m"


def run() -> list[Comparison]:
    """Frames per second with what TorchRL pins, and with what is recommended."""
    python = installed_python("torchrl", beside_ours=True)
    if python is None:
        return [_not_measured()]
    with tempfile.TemporaryDirectory() as folder:
        result = tune(
            program=[str(python), "-W", "ignore", str(PROGRAM), str(COLLECTORS), str(BATCHES)],
            space=SPACE,
            metric="frames per second=fps: ([0-9.]+)",
            maximize=True,
            budget=BUDGET,
            deadline="5m",
            out=Path(folder) / "torchrl",
        )
        print(result)
        return [_gained(result)]


def _gained(result: StudyResult) -> Comparison:
    """The recommendation beside what is pinned; where that is kept, its strongest rival."""
    answer = result.answer
    is_kept = answer.best == answer.baseline and answer.challenger is not None
    config, speedup = (
        (answer.challenger, answer.challenger_speedup) if is_kept else (answer.best, answer.speedup)
    )
    assert config is not None
    values = {row.config: row.value for row in result.rows}
    return Comparison(
        name=f"TorchRL's RPC collector, {result.verdict}",
        ours=f"{'rival' if is_kept else 'recommended'}: {config}",
        theirs=f"pinned: {answer.baseline}",
        ours_value=values[config],
        theirs_value=values[answer.baseline],
        unit="frames/s",
        bars=() if is_kept else (Bar(not_worse=True),),
        interval=speedup,
    )


def _not_measured() -> Comparison:
    return Comparison(
        name="TorchRL's RPC collector",
        ours="NOT MEASURED",
        theirs="not installed",
        ours_value=math.nan,
        theirs_value=math.nan,
        unit="frames/s",
        bars=(Bar(least_ratio=1.0),),
    )
