"""Recommendations written by hand."""

import json
from typing import Any

from testing.results import ENVIRONMENT, measured, study_plan, study_result
from testing.specs import for_all, threads, workload_spec
from tuner.plan.config import Config
from tuner.plan.workload_spec import WorkloadSpec
from tuner.recommended.building import recommendation_of
from tuner.recommended.model import Recommendation
from tuner.world.environment import Environment

OF_EVERY_KNOB = for_all(
    num_worker_threads=8, transports="shm+uv", channels="cma+basic", rpc_timeout=5.5,
    devices="0+1", device_maps="worker1:0-1+1-0", intra_op_threads=2, cpu_binding="equal",
    switch_interval="1ms",
)  # fmt: skip
BY_ROLE = Config.from_json(
    {
        "*": {"num_worker_threads": 8, "transports": ["uv", "shm"], "channels": ["basic", "cma"]},
        "agent": {"num_worker_threads": 2, "rpc_timeout": 9.5, "devices": None},
        "observer": {"intra_op_threads": 2},
    }
)
AGENT = workload_spec("agent", "observer", "observer")


def recommendation(
    config: Config, spec: WorkloadSpec | None = None, environment: Environment = ENVIRONMENT,
    **changes: Any,
) -> Recommendation:  # fmt: skip
    """This configuration, recommended against 16 threads unless `changes` say otherwise."""
    fields = {"best": config, "challenger": config, "environment": environment, **changes}
    tried = dict.fromkeys([threads(16), config, fields["challenger"] or config])
    rows = tuple(measured(trial, each, 2.0, (1.9, 2.1)) for trial, each in enumerate(tried))
    return recommendation_of(study_result(study_plan(spec), rows=rows, **fields))


def document(config: Config = BY_ROLE, spec: WorkloadSpec = AGENT) -> dict[str, Any]:
    """The content of `recommended.json` as data that a test may damage."""
    found: dict[str, Any] = json.loads(recommendation(config, spec).model_dump_json())
    return found


EACH = [
    recommendation(threads(4)),
    recommendation(OF_EVERY_KNOB, workload_spec(cuda_devices=2)),
    recommendation(BY_ROLE, AGENT),
    recommendation(threads(16), verdict="undecided", speedup=None, challenger=None,
                   challenger_speedup=None),
]  # fmt: skip
