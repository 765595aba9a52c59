"""A planted search space of 1,000 configurations: two bad knobs, and a region that deadlocks."""

import itertools
import math
import random
from collections.abc import Iterator
from statistics import fmean

from tests.plan.specs import workload_spec
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.plan.study_plan import StudyPlan
from tuner.searching.proposing import Proposer

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
BATCH = 4


def planted_plan(seed: int, **keys: object) -> StudyPlan:
    """The plan of the planted space."""
    mapping = {"workload": "udf", "space": SPACE, "seed": seed, **keys}
    return draft_plan(mapping).finish(workload_spec())


def times_the_best(config: Config) -> float | None:
    """What a configuration takes, the best one 1; None where it deadlocks."""
    words = dict(word.split("=") for word in str(config).split())
    if words["server.num_worker_threads"] == "1":
        return None
    return (
        CALLER[words["caller.num_worker_threads"]]
        * SERVER[words["server.num_worker_threads"]]
        * TRANSPORTS[words["transports"]]
        * CHANNELS[words["channels"]]
        * INTRA_OP[words["intra_op_threads"]]
    )


class RandomSearch:
    """Every configuration once, in a random order."""

    def __init__(self, plan: StudyPlan) -> None:
        configs = [config for config in plan.candidates() if config != plan.baseline]
        random.Random(plan.measuring.seed).shuffle(configs)
        self._left: Iterator[Config] = iter(configs)

    def propose(self, count: int) -> list[Config]:
        return list(itertools.islice(self._left, count))

    def learn(self, config: Config, log_value: float | None) -> None:
        """Learn nothing."""


def worlds_until_near(proposer: Proposer | RandomSearch, seed: int, sigma: float, most: int) -> int:
    """The worlds until the one that looks best is within 5 % of the best; `most` if more.

    A round measures what is proposed, and again the two that look best so far. Worlds of one
    configuration differ by `sigma`, the standard deviation of the logarithm.
    """
    noise = random.Random(seed + 999)
    seen: dict[Config, list[float]] = {}
    worlds = 0
    while worlds < most:
        best = sorted(seen, key=lambda config: fmean(seen[config]))[:2]
        for config in [*proposer.propose(BATCH), *best]:
            worlds += 1
            times = times_the_best(config)
            if times is None:
                proposer.learn(config, None)
                continue
            seen.setdefault(config, []).append(math.log(times) + noise.gauss(0, sigma))
            proposer.learn(config, fmean(seen[config]))
        if seen:
            leader = min(seen, key=lambda config: fmean(seen[config]))
            if (times_the_best(leader) or math.inf) <= 1.05:
                return worlds
    return most
