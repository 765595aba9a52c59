"""What others took of the machine, from worlds to the sentence beside the verdict."""

import json
from pathlib import Path

import pandas as pd

from tests.fakes import FakeLauncher
from tests.study.test_metrics import world
from tuner.api import load_study, tune
from tuner.study.answer import MachineUse
from tuner.study.metrics import metrics_of
from tuner.world.environment import MachineState
from tuner.world.measurement import Measurement


def beside(others_cpus: float | None, **known: float) -> Measurement:
    state = {"stolen_cpus": 0.0, **known}
    machine = MachineState(seconds=1.0, cpus=2, others_cpus=others_cpus, **state)
    return world(0.1).model_copy(update={"machine": machine})


def use_of(*worlds: Measurement) -> MachineUse:
    found = MachineUse.of(worlds)
    assert found is not None
    return found


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
