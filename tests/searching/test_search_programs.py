"""A search for a program: the objective that it gets, and which way is better."""

import re
from pathlib import Path
from typing import Any

import pytest

import tuner
from testing.known import known
from tests.fake_program import COMMAND, OWN, FakeProgramLauncher
from tests.present.screen import printed
from tests.searching.tuning import Listening
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.present.figures import study_figures
from tuner.present.how_to_use import snippet_of
from tuner.present.pages import report_html
from tuner.present.study_result import StudyResult
from tuner.present.summary import print_summary
from tuner.present.wording import verdict_sentence
from tuner.searching.progress_reports import Stage


def observers(config: Config | None) -> int:
    assert config is not None
    return int(str(config.for_role("observer")["num_worker_threads"]))


def active_s(config: Config) -> float:
    """One thread of the observers takes 0.8 s, eight or more take 0.1 s."""
    return 0.8 / min(8, observers(config))


def searched(launcher: FakeProgramLauncher, folder: Path, **changes: Any) -> StudyResult:
    wanted = {
        "space": {"observer": {"num_worker_threads": [2, 8]}}, "max_blocks": 12,
        "baseline": {"observer": {"num_worker_threads": 1}}, "out": folder / "study", **changes,
    }  # fmt: skip
    return tuner.tune(program=COMMAND, launcher=launcher, clock=launcher.clock, **wanted)


def test_the_active_time_is_compared_where_all_runs_make_as_many_calls(tmp_path: Path) -> None:
    result = searched(FakeProgramLauncher(active_s), tmp_path)
    shown = (result.verdict, result.objective.name, observers(result.best))
    assert shown == ("better", "rpc_active_s", 8)
    assert known(result.speedup).estimate == pytest.approx(8, rel=0.05)


def test_the_time_per_call_is_compared_where_runs_make_more_or_fewer(tmp_path: Path) -> None:
    launcher, heard = FakeProgramLauncher(active_s, calls=(30, 34)), Listening()
    result = searched(launcher, tmp_path, observer=heard)
    assert result.objective.name == "ms_per_call"
    why = "because the number of calls varies from run to run: 30 and 34"
    assert f"comparing the time per RPC call, {why}" in heard.told
    assert result.rows[0].value == pytest.approx(100 / 32, rel=0.1)


def test_the_time_of_a_run_is_compared_where_it_polls(tmp_path: Path) -> None:
    """Eight threads ask three times as often, and what is asked for comes no earlier."""

    def did(config: Config) -> dict[str, Any]:
        functions = {"size": 1286 * observers(config), "push": 100}
        return {"calls": sum(functions.values()), "functions": functions, "failed": 0}

    runs = {"size": 735, "push": 100}, {"size": 1838, "push": 100}
    launcher, heard = FakeProgramLauncher(lambda config: 1.0, did=did), Listening()
    launcher.calls, launcher.functions = (835, 1938), runs
    result = searched(launcher, tmp_path, observer=heard)
    assert (result.verdict, result.objective.name) == ("keep-baseline", "rpc_active_s")
    assert any("(835 and 1938), but not that of push" in each for each in heard.told)
    # Asked for the time by calls, it counts those that are not only made more often.
    result = searched(launcher, tmp_path, objective="ms_per_call", overwrite=True)
    assert result.verdict == "keep-baseline"


def test_what_pytorch_warns_of_in_its_own_code_is_told_once(tmp_path: Path) -> None:
    class HearsStages(Listening):
        def on_stage(self, stage: Stage) -> None:
            self.told.append(stage.text)

    warned = ("UserWarning: this use is deprecated",)
    launcher, heard = FakeProgramLauncher(active_s, warned=warned, first_runs=2), HearsStages()
    searched(launcher, tmp_path, observer=heard)
    assert [each for each in heard.told if "warned" in each] == [
        "setting up: PyTorch warned in its own code: UserWarning: this use is deprecated"
    ]


def test_a_gain_by_calls_is_no_gain_of_the_program(tmp_path: Path) -> None:
    launcher = FakeProgramLauncher(active_s, calls=(30, 34))
    result = searched(launcher, tmp_path)
    said = verdict_sentence(result)
    assert re.match(r"Use .*: a call takes 0\.1\d* times as long as with the baseline", said)
    assert "times as fast" not in "\n".join([said, printed(print_summary, result, whole=True)])


@pytest.mark.parametrize("maximize", [False, True])
def test_the_best_are_traced_first_whichever_way_is_better(tmp_path: Path, maximize: bool) -> None:
    launcher = FakeProgramLauncher(active_s)
    searched(
        launcher, tmp_path, space={"observer": {"num_worker_threads": [2, 4, 8]}},
        **({"metric": "fps=([0-9.]+)", "maximize": True} if maximize else {}),
    )  # fmt: skip
    traced = [observers(order.config) for order in launcher.orders if order.trace is not None]
    assert list(dict.fromkeys(traced)) == [1, 8, 4, 2]


def test_the_number_that_it_prints_is_made_large_or_small(tmp_path: Path) -> None:
    asked = {"metric": "frames per s=fps: ([0-9.]+)"}
    result = searched(FakeProgramLauncher(active_s), tmp_path, **asked)
    # The baseline prints the smallest number, so nothing is better.
    assert (result.verdict, snippet_of(result)) == ("keep-baseline", None)

    result = searched(
        FakeProgramLauncher(active_s), tmp_path, **asked, maximize=True, overwrite=True
    )
    assert result.objective.label == "frames per s"
    assert (result.verdict, observers(result.best)) == ("better", 8)
    assert known(result.speedup).estimate == pytest.approx(8, rel=0.05)
    values = result.trials["value"].tolist()
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(1000, rel=0.05)
    again = tuner.load_study(tmp_path / "study")
    assert (again.verdict, again.rows[0].value) == ("better", values[0])
    page = report_html(result, study_figures(result, {}))
    assert "frames per s, measured with tracing off; higher is better" in page
    assert not re.search(r"\b(slower|faster|fastest|lowest)\b", page[page.index("<main>") :])


def test_the_baseline_is_what_the_program_has(tmp_path: Path) -> None:
    space = {"num_worker_threads": [4], "transports": ["shm", "uv"]}
    asked: dict[str, Any] = {"space": space, "baseline": None, "max_blocks": 4}
    result = searched(FakeProgramLauncher(lambda config: 0.1), tmp_path, **asked)
    of_roles = {"agent": {"transports": None}, "observer": {"transports": ["uv"]}}
    assert result.baseline.to_json() == {"*": {"num_worker_threads": 16}, **of_roles}
    same = FakeProgramLauncher(lambda config: 0.1, own={**OWN, "agent": OWN["observer"]})
    alike = searched(same, tmp_path, **asked, overwrite=True)
    assert alike.baseline.to_json() == {"*": {"num_worker_threads": 16, "transports": ["uv"]}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"objective": "step_ms"}, "the objective step_ms is not one of a program; known: rpc_a"),
        ({"objective": "metric"}, "the objective metric needs a metric: NAME=REGEX"),
        ({"metric": "fps: [0-9]+"}, "metric needs one group in parentheses, such as"),
        ({"metric": "fps: ([0-9]+"}, "metric is not a regular expression"),
        ({"maximize": True}, "maximize is for a metric, and none is given"),
        ({"warm_up": "3s"}, "warm_up is for a window, and none is given"),
        ({"window": "soon"}, "window must be a duration such as 60s"),
        ({"expect": "("}, "expect is not a regular expression"),
        ({"space": {"trainer": {"num_worker_threads": [2]}}}, "unknown role 'trainer'; known: ag"),
    ],
)
def test_a_mistake_is_told_before_anything_is_compared(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    launcher = FakeProgramLauncher(active_s)
    with pytest.raises(UsageError, match=re.escape(told)):
        searched(launcher, tmp_path, **changes)
    assert launcher.orders == []


@pytest.mark.parametrize(
    ("run_s", "longest_s"), [((6.0, 0.8), 13.0), ((4.0, 0.5), 13.0), ((20.0, 1.0), 40.0)]
)
def test_a_run_that_takes_many_times_as_long_as_the_first_ones_is_stuck(
    tmp_path: Path, run_s: tuple[float, ...], longest_s: float
) -> None:
    launcher = FakeProgramLauncher(active_s, run_s=run_s)
    searched(launcher, tmp_path)
    first, *later = [order.deadline_s for order in launcher.orders]
    assert first == pytest.approx(max(10, 10 * run_s[-1], 2 * run_s[0]))
    assert max(later) == pytest.approx(longest_s, rel=0.1)
