"""One world of a workload, which must run: measured, or traced as well."""

from collections.abc import Mapping
from pathlib import Path

from tuner.plan.config import Config
from tuner.world.launcher import TraceOrder, WorkloadLauncher, WorldOrder
from tuner.world.measurement import Measurement

DEFAULT = Config.of({})
"""PyTorch's own values."""


def measured_world(
    launcher: WorkloadLauncher,
    workload: str,
    steps: int,
    *,
    options: Mapping[str, object] | None = None,
    config: Config = DEFAULT,
    trace: Path | None = None,
    operators: bool = True,
) -> Measurement:
    """What a world of so many steps yields; `trace` says where its trace is written, if at all."""
    outcome = launcher.run(
        WorldOrder(
            subject=launcher.describe(workload, options or {}),
            config=config,
            seed=0,
            steps=steps,
            min_time_s=0.3,
            deadline_s=120.0,
            trace=None if trace is None else TraceOrder(path=trace, operators=operators),
        )
    )
    assert isinstance(outcome, Measurement), outcome
    return outcome
