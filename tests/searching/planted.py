"""A planted search space of 1,000 configurations: two bad knobs, and a region that deadlocks."""

import math

from testing.specs import workload_spec
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.plan.study_plan import StudyPlan

SPACE = {
    "caller.num_worker_threads": [1, 2, 4, 8, 16],
    "server.num_worker_threads": [1, 2, 4, 8, 16],
    "transports": ["shm", "uv", "shm+uv", "uv+shm"],
    "channels": ["cma", "mpt_uv", "basic", "cma+basic", "basic+cma"],
    "intra_op_threads": [1, 2],
}
CALLER = {"1": 1.5, "2": 1.2, "4": 1.0, "8": 1.1, "16": 1.3}
SERVER = {"2": 1.6, "4": 1.25, "8": 1.0, "16": 1.12}
TRANSPORTS = {"shm": 1.0, "uv": 1.8, "shm+uv": 1.04, "uv+shm": 1.9}
CHANNELS = {"cma": 1.0, "mpt_uv": 3.0, "basic": 2.9, "cma+basic": 1.06, "basic+cma": 1.1}
INTRA_OP = {"1": 1.0, "2": 1.08}


def planted_plan(seed: int, **keys: object) -> StudyPlan:
    """The plan of the planted space."""
    mapping = {"workload": "udf", "space": SPACE, "seed": seed, **keys}
    return draft_plan(mapping).finish(workload_spec())


def times_the_best(config: Config) -> float | None:
    """What a configuration takes, the best one 1; None where it deadlocks."""
    words = dict(word.split("=") for word in str(config).split())
    if words["server.num_worker_threads"] == "1":
        return None
    factors = CALLER, SERVER, TRANSPORTS, CHANNELS, INTRA_OP
    return math.prod(factor[words[knob]] for factor, knob in zip(factors, SPACE, strict=True))
