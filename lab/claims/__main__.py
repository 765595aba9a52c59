"""How often searches of real worlds are right, where the truth is known.

same        one configuration under three names: whatever is called better is wrong
same_bound  the same with each rank bound to logical CPUs of its own
sleep       calls that sleep 10 ms, eight at once: 4 threads are half as fast as 8
one_lock    calls that sleep under one lock: no number of threads is better
network     calls of 4 MB between two hosts: 4 threads are fewer than 8, and the traces show as much
agreement   two searches of `sleep` name the same, or the same set as not told apart
close_call  two searches of the recipe's function, whose truth is not known, do not contradict
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import compress
from pathlib import Path
from typing import Any

from lab.claims.network import searched
from tuner.api import tune
from tuner.plan.config import Config
from tuner.present.study_result import StudyResult

THREADS = [1, 2, 4, 8, 16, 32]


def same(number: int) -> str:
    """One configuration under three names."""
    result = _search(workload="udf", space={"rpc_timeout": [61, 62]}, budget="30s", seed=number)
    return str(result.verdict)


def same_bound(number: int) -> str:
    """One configuration under three names, each rank bound."""
    bound = {"cpu_binding": "equal"}
    result = _search(workload="udf", space={"rpc_timeout": [61, 62], **bound}, baseline=bound,
                     budget="30s", seed=number)  # fmt: skip
    return str(result.verdict)


def sleep(number: int) -> str:
    """A server that needs 8 threads has 4."""
    result = _sleeping(number)
    assert result.best is not None
    return f"{result.verdict}: {result.best}"


def _sleeping(seed: int) -> StudyResult:
    options = {"sleep_ms": 10, "calls": 8}
    space = {"server": {"num_worker_threads": THREADS}}
    baseline = {"server": {"num_worker_threads": 4}}
    return _search(workload="udf_sleep", options=options, space=space, baseline=baseline,
                   budget="20s", seed=seed)  # fmt: skip


def one_lock(number: int) -> str:
    """A server whose calls wait for each other has 16 threads."""
    workload = f"{Path(__file__).with_name('one_lock.py')}:OneLock"
    space = {"server": {"num_worker_threads": THREADS}}
    return str(_search(workload=workload, space=space, budget="60s", seed=number).verdict)


def network(number: int) -> str:
    """A server on another host that needs 8 threads has 4; traces show how many are at work."""
    return searched(number)


def agreement(number: int) -> str:
    """Two searches of one command, where 8, 16 and 32 threads are the same, and twice the rest."""
    return _agreement(_sleeping(2 * number), _sleeping(2 * number + 1))


def close_call(number: int) -> str:
    """Two searches of the recipe's function: 30 s tell a gain in some of them."""
    space = {"num_worker_threads": [1, 2, 4, 8]}
    return _agreement(
        *(
            _search(workload="udf", space=space, budget="30s", seed=2 * number + again)
            for again in (0, 1)
        )
    )


def _agreement(first: StudyResult, second: StudyResult) -> str:
    """How what two searches say goes together."""
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
    answer = result
    return {result.best, *(answer.by_trial[trial].config for trial in answer.not_told_apart)}


def _search(**request: Any) -> StudyResult:
    """A search that finds no earlier studies beside it."""
    with tempfile.TemporaryDirectory() as folder:
        return tune(out=Path(folder) / "studies" / "one", **request)


@contextmanager
def _busy_core(wanted: bool) -> Iterator[None]:
    with ExitStack() as ending:
        if wanted:
            spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            ending.callback(spinning.wait)
            ending.callback(spinning.kill)
        yield


CLAIMS: dict[str, Callable[[int], str]] = {
    each.__name__: each
    for each in (same, same_bound, sleep, one_lock, network, agreement, close_call)
}


def main(arguments: list[str]) -> int:
    """Search again and again, and count what is said."""
    parser = argparse.ArgumentParser(prog="python -m lab.claims")
    parser.description = __doc__
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("claim", choices=CLAIMS)
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--busy", action="store_true", help="keep one core busy beside")
    given = parser.parse_args(arguments)
    said: Counter[str] = Counter()
    with _busy_core(given.busy):
        for number in range(given.searches):
            what = CLAIMS[given.claim](number)
            said[what] += 1
            print(f"{number + 1}: {what}", flush=True)
    for what, count in said.most_common():
        print(f"{count} of {given.searches}: {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
