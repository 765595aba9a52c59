"""How each stored study was searched: on fake launchers, whose truth is written here."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import chdir, suppress
from typing import Any

import tuner
from tests.cheap_studies import cheaply
from tests.fake_program import COMMAND, FakeProgramLauncher
from tests.fakes import FakeLauncher, threads_of
from tests.golden.media import STORED_STUDIES
from tests.golden.stored_study import dumped
from tests.searching.grouping import grouped
from tests.searching.tuning import failing, scaling
from tuner.api import SearchInterrupted
from tuner.plan.config import Config
from tuner.plan.workload_spec import RankSpec, WorkloadSpec
from tuner.study.folder import STUDIES, StudyFolder

_Search = Callable[[], object]
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


def _udf(launcher: FakeLauncher, **changes: Any) -> object:
    keys = {
        "space": {"num_worker_threads": [1, 2, 4, 8]}, "budget": "30s", "min_time": "5ms",
        **changes,
    }  # fmt: skip
    return tuner.tune("udf", launcher=launcher, clock=launcher.clock, **keys)


def _bound(config: Config) -> float:
    """Bound ranks are 1.3 times as fast; 8 threads are 1.1 times as fast as fewer or more."""
    of_server = config.for_role("server")
    bound = 1.3 if of_server.get("cpu_binding") == "equal" else 1.0
    return 3.0 / bound / (1.1 if threads_of(config) == 8 else 1.0)


def _cpus(config: Config) -> float:
    """The CPUs that a configuration keeps busy: one per thread."""
    return float(threads_of(config))


def _better() -> object:
    return _udf(
        FakeLauncher(step_ms=_bound, sigma=0.02),
        space={"num_worker_threads": [1, 8, 16], "cpu_binding": ["none", "equal"]},
        budget="60s",
    )


def _per_role() -> object:
    by_role = {"caller": {"num_worker_threads": [1, 16]}, "server": {"num_worker_threads": [2, 8]}}
    return _udf(FakeLauncher(step_ms=scaling, sigma=0.02), space=by_role, budget="60s")


def _interrupted() -> object:
    return _udf(FakeLauncher(step_ms=scaling, sigma=0.05, interrupt_after=14))


def _failed_baseline() -> object:
    return _udf(FakeLauncher(step_ms=scaling, sigma=0.02, fails=failing("deadlocked", 16)))


def _infeasible() -> object:
    launcher = FakeLauncher(step_ms=scaling, cpu_cores=_cpus, sigma=0.02)
    return _udf(launcher, baseline={"num_worker_threads": 1}, require="cpu_cores<=5")


def _nothing_feasible() -> object:
    return _udf(FakeLauncher(step_ms=scaling), require="peak_rss_mb<=100")


def _fails_sometimes() -> object:
    def fails(config: Config, world: int) -> Any:
        return "crashed" if threads_of(config) == 4 and world % 3 == 1 else None

    return _udf(FakeLauncher(step_ms=scaling, sigma=0.02, fails=fails), budget="60s")


def _front() -> object:
    launcher = FakeLauncher(step_ms=scaling, cpu_cores=_cpus, sigma=0.02)
    return _udf(launcher, objective="step_ms,cpu_ms_per_step", budget="90s")


def _sampled() -> object:
    space = {
        "num_worker_threads": [1, 2, 4, 8, 16],
        "intra_op_threads": [1, 2, 4],
        "cpu_binding": ["none", "equal"],
        "transports": ["default", "uv"],
    }
    launcher = FakeLauncher(step_ms=_bound, sigma=0.02)
    return _udf(launcher, space=space, sampler="tpe", budget="60s", seed=3)


def _program() -> object:
    def active_s(config: Config) -> float:
        return 0.8 / min(8, int(str(config.for_role("observer")["num_worker_threads"])))

    launcher = FakeProgramLauncher(active_s)
    return tuner.tune(
        program=COMMAND,
        launcher=launcher,
        clock=launcher.clock,
        space={"observer": {"num_worker_threads": [2, 8]}},
        baseline={"observer": {"num_worker_threads": 1}},
        max_blocks=8,
    )


def _groups() -> object:
    return tuner.tune(
        "udf", launcher=grouped(2, sigma=0.02, step_ms=scaling), groups=2, budget="60s",
        space={"num_worker_threads": [1, 2, 4]}, min_time="5ms", max_blocks=8,
    )  # fmt: skip


def _traced() -> object:
    return _udf(FakeLauncher(step_ms=scaling, sigma=0.02), objective="rpc_p99_ms")


def _unicode() -> object:
    launcher = FakeLauncher(step_ms=scaling, sigma=0.02, spec=UNICODE)
    return _udf(launcher, space={"серв": {"num_worker_threads": [1, 4]}})


def _busy() -> object:
    return _udf(FakeLauncher(step_ms=scaling, sigma=0.1, others_cpus=lambda number: 1.0))


SEARCHED: Mapping[str, _Search] = {
    "better": _better,
    "per-role": _per_role,
    "tie": lambda: _udf(FakeLauncher(step_ms=lambda config: 2.0, cpu_cores=_cpus, sigma=0.005)),
    "keep": lambda: _udf(FakeLauncher(step_ms=lambda config: 4.0 - 0.1 * threads_of(config))),
    "undecided": lambda: _udf(FakeLauncher(sigma=0.3)),
    "interrupted": _interrupted,
    "failed-baseline": _failed_baseline,
    "nothing-ran": lambda: _udf(FakeLauncher(fails=lambda config, world: "init-failed")),
    "infeasible": _infeasible,
    "nothing-feasible": _nothing_feasible,
    "fails-sometimes": _fails_sometimes,
    "front": _front,
    "sampled": _sampled,
    "program": _program,
    "groups": _groups,
    "traced-only": _traced,
    "unicode": _unicode,
    "busy": _busy,
}
"""Each stored study by its name."""
