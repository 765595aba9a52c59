"""How often searches of real worlds are right, where the truth is known."""

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from itertools import compress
from typing import Any

from lab.benchmarks.tuned import searched
from lab.claims.network import network
from testing import served_together
from testing.known import known
from tuner.plan.config import Config
from tuner.present.study_result import StudyResult

THREADS = [1, 2, 4, 8, 16, 32]


def same(number: int, **fixed: Any) -> str:
    """One configuration under three names: whatever is called better is wrong."""
    request = {"space": {"rpc_timeout": [61, 62], **fixed}, "baseline": fixed or None}
    return str(searched(workload="udf", budget="30s", seed=number, **request).verdict)


def same_bound(number: int) -> str:
    """The same with each rank bound to logical CPUs of its own."""
    return same(number, cpu_binding="equal")


def idle_pools(number: int) -> str:
    """Intra-op threads of ranks that only sleep: whatever is called better is wrong."""
    options = {"sleep_ms": 10, "calls": 8}
    space = {"intra_op_threads": [1, 2], "rpc_timeout": [61, 62]}
    found = searched(workload="udf_sleep", options=options, space=space, budget="20s", seed=number)
    return str(found.verdict)


def sleep(number: int) -> str:
    """Calls that sleep 10 ms, eight at once: 4 threads are half as fast as 8."""
    result = _sleeping(number)
    return f"{result.verdict}: {known(result.best)}"


def _sleeping(seed: int) -> StudyResult:
    options = {"sleep_ms": 10, "calls": 8}
    space = {"server": {"num_worker_threads": THREADS}}
    baseline = {"server": {"num_worker_threads": 4}}
    return searched(workload="udf_sleep", options=options, space=space, baseline=baseline,
                    budget="20s", seed=seed)  # fmt: skip


def one_lock(number: int) -> str:
    """Calls that sleep under one lock: no number of threads is better."""
    workload = f"{served_together.__file__}:OneLock"
    space = {"server": {"num_worker_threads": THREADS}}
    return str(searched(workload=workload, space=space, budget="60s", seed=number).verdict)


def agreement(number: int) -> str:
    """Two searches of `sleep` name the same, or the same set as not told apart."""
    return _agreement(_sleeping(2 * number), _sleeping(2 * number + 1))


def close_call(number: int) -> str:
    """Two searches of the recipe's function, whose truth is not known, do not contradict."""
    asked = {"workload": "udf", "space": {"num_worker_threads": [1, 2, 4, 8]}, "budget": "30s"}
    return _agreement(*(searched(**asked, seed=2 * number + again) for again in (0, 1)))


def _agreement(first: StudyResult, second: StudyResult) -> str:
    if first.best == second.best:
        return "the same recommendation"
    both = (first, second)
    names_both = [_not_told_apart(each) >= {first.best, second.best} for each in both]
    if all(names_both):
        return "both not told apart by both"
    if [each.verdict for each in compress(both, names_both)] == ["undecided"]:
        return "one is shown to be better, and the other search, undecided, does not exclude it"
    return f"DISAGREE: {first.verdict} {first.best}, and {second.verdict} {second.best}"


def _not_told_apart(result: StudyResult) -> set[Config | None]:
    return {result.best, *(result.by_trial[trial].config for trial in result.not_told_apart)}


CLAIMS: dict[str, Callable[[int], str]] = {
    each.__name__: each
    for each in (same, same_bound, idle_pools, sleep, one_lock, network, agreement, close_call)
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Search again and again, and count what is said."""
    about = "\n".join(f"{name:<12}{claim.__doc__}" for name, claim in CLAIMS.items())
    parser = argparse.ArgumentParser(
        prog="python -m lab.claims", description=f"{__doc__}\n\n{about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("claim", choices=CLAIMS)
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--busy", action="store_true", help="keep one core busy beside")
    given = parser.parse_args(arguments)
    said: Counter[str] = Counter()
    with ExitStack() as ending:
        if given.busy:
            spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            ending.callback(spinning.wait)
            ending.callback(spinning.kill)
        for number in range(given.searches):
            what = CLAIMS[given.claim](number)
            said[what] += 1
            print(f"{number + 1}: {what}", flush=True)
    for what, count in said.most_common():
        print(f"{count} of {given.searches}: {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
