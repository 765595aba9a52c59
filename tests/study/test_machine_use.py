"""What others took of the machine, from worlds to the sentence beside the verdict."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from tests.fakes import FakeLauncher
from tests.present.results import study_plan, study_result
from tests.study.test_metrics import world
from tuner.api import load_study, tune
from tuner.present.environment_and_method import environment_facts
from tuner.present.notes import study_note
from tuner.present.report.pages import prose
from tuner.present.report.study_report import notebook_html, report_html
from tuner.present.study_result import StudyResult
from tuner.present.summary import print_summary
from tuner.present.wording import busy_sentence
from tuner.study.answer import MachineUse
from tuner.study.metrics import metrics_of
from tuner.world.environment import MachineState
from tuner.world.measurement import Measurement

SAID = (
    "The machine was busy: in 3 of 10 worlds that count other programs or virtual machines took "
    "more than 10 % of the 2 logical CPUs, and 16 % on average over all; on a quiet machine the "
    "intervals are narrower."
)


def beside(others_cpus: float | None, **known: float) -> Measurement:
    state = {"stolen_cpus": 0.0, **known}
    machine = MachineState(seconds=1.0, cpus=2, others_cpus=others_cpus, **state)
    return world(0.1).model_copy(update={"machine": machine})


def use_of(*worlds: Measurement) -> MachineUse:
    found = MachineUse.of(worlds)
    assert found is not None
    return found


BUSY = use_of(*[beside(1.0, stolen_cpus=0.06)] * 3, *[beside(0.0)] * 7)


def test_a_tenth_of_the_worlds_makes_a_busy_machine() -> None:
    quiet = [beside(0.0)] * 9
    assert not use_of(*quiet, beside(1.0)).is_busy
    assert use_of(*quiet, beside(1.0), beside(1.0)).is_busy


def test_what_is_not_known_does_not_count() -> None:
    assert MachineUse.of([world(0.1), beside(None)]) is None
    use = use_of(world(0.1), beside(None), beside(1.0, mhz=2000.0), beside(0.5))
    assert (use.worlds, use.disturbed_worlds, use.others_cpus, use.mhz) == (2, 2, 0.75, 2000.0)
    assert (use.load, use.pressure_some) == (None, None)


def test_the_metrics_of_a_trial_tell_it() -> None:
    found = metrics_of([beside(0.0), beside(1.0), beside(0.5)], None)
    assert (found["others_cpus"], found["disturbed_worlds"]) == (0.5, 2)
    assert "others_cpus" not in metrics_of([world(0.1), beside(None)], None)


def test_it_is_said_beside_the_verdict() -> None:
    answer = study_result(study_plan(), machine=BUSY)
    assert busy_sentence(answer) == SAID
    assert SAID in study_note(answer)
    assert prose(SAID) in report_html(answer, [])
    assert SAID in notebook_html(answer)
    text = io.StringIO()
    print_summary(answer, Console(file=text, width=100))
    assert SAID in text.getvalue()
    document = StudyResult(answer).to_json()["machine"]
    assert (document["busy"], document["disturbed_worlds"], document["worlds"]) == (True, 3, 10)


@pytest.mark.parametrize("machine", [None, use_of(*[beside(0.1)] * 9)])
def test_of_a_quiet_machine_nothing_is_said(machine: MachineUse | None) -> None:
    answer = study_result(study_plan(), machine=machine)
    assert busy_sentence(answer) is None
    assert "was busy" not in report_html(answer, []) + study_note(answer)


def test_the_environment_tells_what_others_took() -> None:
    busy = replace(BUSY, throttled_worlds=2, load=1.25, repeated_blocks=1)
    answer = study_result(study_plan(), machine=busy)
    said = dict(environment_facts(answer))["others on the machine"]
    assert said.startswith("other programs used 0.3 of 2 logical CPUs on average")
    assert "3 of 10 worlds had more than 10 % of the CPUs taken" in said
    assert "a CPU quota stopped 2 worlds for a while" in said
    assert "load average 1.25" in said
    assert "1 disturbed block more measured again" in said
    quiet = study_result(study_plan())
    assert "others on the machine" not in dict(environment_facts(quiet))


def test_it_survives_in_the_study(tmp_path: Path) -> None:
    launcher = FakeLauncher(others_cpus=lambda number: 0.5 * (number % 2))
    result = tune(
        "udf", launcher=launcher, clock=launcher.clock, out=tmp_path, budget="30s",
        space={"num_worker_threads": [1, 2]},
    )  # fmt: skip
    machine = result.answer.machine
    assert machine is not None
    assert machine.is_busy
    again = load_study(tmp_path)
    assert again.answer.machine == machine
    assert json.loads(json.dumps(again.to_json()))["machine"]["disturbed_worlds"] > 0
    table = pd.read_csv(tmp_path / "trials.csv")
    assert table["disturbed_worlds"].sum() == machine.disturbed_worlds
    assert table["others_cpus"].between(0.01, 0.49).all()
