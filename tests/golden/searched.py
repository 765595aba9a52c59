"""How each stored study was searched: on fake launchers, whose truth is written here."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import chdir, suppress
from typing import Any

import pytest

import tuner
from testing.cheap_studies import cheaply
from testing.fakes import FakeLauncher, threads_of
from testing.results import CALLERS, CHANGES
from tests.fake_program import COMMAND, FakeProgramLauncher
from tests.golden.media import STORED_STUDIES
from tests.golden.stored_study import dumped
from tests.searching.tuning import (
    INTERVALS,
    by_interval,
    by_threads,
    cpus,
    failing,
    forecasting,
    forecasting_intervals,
    grouped,
    scaling,
)
from tuner.api import SearchInterrupted
from tuner.plan.config import Config
from tuner.plan.workload_spec import RankSpec, WorkloadSpec
from tuner.study.folder import STUDIES, StudyFolder
from tuner.trace.forecast.forecasts import Model
from tuner.world.measurement import FailureKind

UNICODE = WorkloadSpec(
    reference="udf",
    summary="Ränge mit Namen, die nicht ASCII sind.",
    options={"calls": 4, "size": 100, "rounds": 10},
    ranks=(RankSpec(name="anrufer", role="anrufer"), RankSpec(name="bedienung-日本", role="серв")),
    intra_op_threads=1,
)


def search_again(name: str) -> None:
    """Search a study, and store it in the place of what is stored."""
    with tempfile.TemporaryDirectory() as place, chdir(place), cheaply():
        with suppress(SearchInterrupted):
            SEARCHED[name]()
        folder = StudyFolder(next(STUDIES.iterdir()))
        text = dumped(folder, folder.root.name)
    STORED_STUDIES.mkdir(exist_ok=True)
    (STORED_STUDIES / f"{name}.json").write_text(text, encoding="utf-8")


def _udf(*, keys: Mapping[str, Any] = {}, **of_launcher: Any) -> object:
    """Search for the UDF with some keys, on a fake launcher of this speed and noise."""
    launcher = FakeLauncher(**{"step_ms": scaling, "sigma": 0.02, **of_launcher})
    usual = {"space": {"num_worker_threads": [1, 2, 4, 8]}, "budget": "30s", "min_time": "5ms"}
    return tuner.tune("udf", launcher=launcher, clock=launcher.clock, **{**usual, **keys})


def _bound(config: Config) -> float:
    """Bound ranks are 1.3 times as fast; 8 threads are 1.1 times as fast as fewer or more."""
    of_server = config.for_role("server")
    bound = 1.3 if of_server.get("cpu_binding") == "equal" else 1.0
    return 3.0 / bound / (1.1 if threads_of(config) == 8 else 1.0)


def _alike(config: Config) -> float:
    return 2.0


def _sometimes(config: Config, world: int) -> FailureKind | None:
    return "crashed" if threads_of(config) == 4 and world % 3 == 1 else None


def _keep() -> object:
    """No configuration is faster, and the trace shows calls that could be issued together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tuner.searching.session.changes_by", lambda *_: (CHANGES, CALLERS))
        patch.setattr(Model, "of", lambda *_: "the trace holds no calls that ended")
        return _udf(step_ms=lambda config: 4.0 - 0.1 * threads_of(config), sigma=0.0)


def _forecast() -> object:
    """One thread waits, as forecast; 8 are faster than that."""
    times = {1: 4.5, 2: 2.2, 4: 1.5, 8: 1.4, 16: 2.0}
    with forecasting({1: 3.8, 2: 1.9, 4: 1.0, 8: 1.0}):
        return _udf(step_ms=by_threads(times), keys={"budget": "40s"})


def _intervals() -> object:
    """The shortest one is the best, as forecast, and the longest waits."""
    with forecasting_intervals({20.0: 2.1, 2.0: 0.8, 1.0: 0.6}):
        return _udf(step_ms=by_interval, keys={"space": INTERVALS, "budget": "60s"})


def _program() -> object:
    def active_s(config: Config) -> float:
        return 0.8 / min(8, int(str(config.for_role("observer")["num_worker_threads"])))

    launcher = FakeProgramLauncher(active_s)
    return tuner.tune(
        program=COMMAND, launcher=launcher, clock=launcher.clock, max_blocks=8,
        space={"observer": {"num_worker_threads": [2, 8]}},
        baseline={"observer": {"num_worker_threads": 1}},
    )  # fmt: skip


def _fails_more() -> object:
    """A program that skips calls which time out: most with one thread, a few with 2."""

    def threads(config: Config) -> int:
        return int(str(config.for_role("observer")["num_worker_threads"]))

    def did(config: Config) -> dict[str, Any]:
        failed = {1: 20, 2: 3}.get(threads(config), 0)
        return {"calls": 24, "failed": failed, "functions": {"work": 24}}

    def active_s(config: Config) -> float:
        return {1: 0.45, 2: 0.8}.get(threads(config), 0.9)

    launcher = FakeProgramLauncher(active_s, calls=(24, 24), did=did)
    return tuner.tune(
        program=COMMAND, launcher=launcher, clock=launcher.clock, max_blocks=6,
        space={"observer": {"num_worker_threads": [1, 2, 16]}},
    )  # fmt: skip


def _groups() -> object:
    return tuner.tune(
        "udf", launcher=grouped(2, sigma=0.02, step_ms=scaling), groups=2, budget="60s",
        space={"num_worker_threads": [1, 2, 4]}, min_time="5ms", max_blocks=8,
    )  # fmt: skip


BETTER = {
    "space": {"num_worker_threads": [1, 8, 16], "cpu_binding": ["none", "equal"]},
    "budget": "60s",
}
PER_ROLE = {
    "space": {"caller": {"num_worker_threads": [1, 16]}, "server": {"num_worker_threads": [2, 8]}},
    "budget": "60s",
}
SAMPLED = {
    "space": {
        "num_worker_threads": [1, 2, 4, 8, 16], "intra_op_threads": [1, 2, 4],
        "cpu_binding": ["none", "equal"], "transports": ["default", "uv"],
    },
    "sampler": "tpe", "budget": "60s", "seed": 3,
}  # fmt: skip
INFEASIBLE = {"baseline": {"num_worker_threads": 1}, "require": "cpu_cores<=5"}
FRONT = {"objective": "step_ms,cpu_ms_per_step", "budget": "90s"}
WITH_SIGNS = {"space": {"серв": {"num_worker_threads": [1, 4]}}}
SEARCHED: Mapping[str, Callable[[], object]] = {
    "better": lambda: _udf(step_ms=_bound, keys=BETTER),
    "per-role": lambda: _udf(keys=PER_ROLE),
    "tie": lambda: _udf(step_ms=_alike, cpu_cores=cpus, sigma=0.005),
    "keep": _keep,
    "undecided": lambda: _udf(step_ms=_alike, sigma=0.3),
    "interrupted": lambda: _udf(sigma=0.05, interrupt_after=14),
    "failed-baseline": lambda: _udf(fails=failing("deadlocked", 16)),
    "nothing-ran": lambda: _udf(
        step_ms=_alike, sigma=0.0, fails=lambda config, world: "init-failed"
    ),
    "infeasible": lambda: _udf(cpu_cores=cpus, keys=INFEASIBLE),
    "nothing-feasible": lambda: _udf(sigma=0.0, keys={"require": "peak_rss_mb<=100"}),
    "fails-sometimes": lambda: _udf(fails=_sometimes, keys={"budget": "60s"}),
    "front": lambda: _udf(cpu_cores=cpus, keys=FRONT),
    "sampled": lambda: _udf(step_ms=_bound, keys=SAMPLED),
    "forecast": _forecast,
    "intervals": _intervals,
    "program": _program,
    "fails-more": _fails_more,
    "groups": _groups,
    "traced-only": lambda: _udf(keys={"objective": "rpc_p99_ms"}),
    "unicode": lambda: _udf(spec=UNICODE, keys=WITH_SIGNS),
    "busy": lambda: _udf(sigma=0.1, others_cpus=lambda number: 1.0),
}
"""Each stored study by its name."""
