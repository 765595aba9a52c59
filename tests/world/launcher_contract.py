"""What every launcher must do; subclassed per launcher."""

import pytest

from tests.fakes import order
from tuner.errors import UsageError
from tuner.plan.workload_spec import WorkloadSpec
from tuner.study.records import Record
from tuner.world.launcher import WorkloadLauncher
from tuner.world.measurement import Failure, Measurement


def survives(outcome: Measurement | Failure) -> bool:
    """Whether an outcome is the same after it was written as JSON and read, as a study does."""
    record = Record(trial=0, block=3, phase="race", outcome=outcome)
    return Record.model_validate_json(record.model_dump_json()) == record


class LauncherContract:
    """Subclasses give the fixture `launcher`, whose worlds fail with the transport `ibv`."""

    @pytest.fixture
    def spec(self, launcher: WorkloadLauncher) -> WorkloadSpec:
        return launcher.describe("udf", {"calls": "2"})

    def test_describe_fills_in_the_options(self, spec: WorkloadSpec) -> None:
        assert {**spec.options, "calls": 2, "size": 100, "rounds": 10} == spec.options
        assert spec.roles == ("caller", "server")
        assert [rank.name for rank in spec.ranks] == ["worker0", "worker1"]

    def test_unknown_workload_lists_the_known(self, launcher: WorkloadLauncher) -> None:
        with pytest.raises(UsageError, match=r"unknown workload 'udff'.*Known: .*udf"):
            launcher.describe("udff", {})

    def test_unknown_option_is_refused(self, launcher: WorkloadLauncher) -> None:
        with pytest.raises(UsageError, match="unknown option 'colour'"):
            launcher.describe("udf", {"colour": "red"})

    def test_a_world_gives_the_steps_ordered(
        self, launcher: WorkloadLauncher, spec: WorkloadSpec
    ) -> None:
        outcome = launcher.run(order(spec, steps=5))
        assert isinstance(outcome, Measurement)
        assert len(outcome.step_s) == 5
        assert all(step_s > 0 for step_s in outcome.step_s)
        assert outcome.wall_s >= sum(outcome.step_s) * 0.999
        assert outcome.world_s > outcome.wall_s

    def test_a_world_reports_every_rank(
        self, launcher: WorkloadLauncher, spec: WorkloadSpec
    ) -> None:
        outcome = launcher.run(order(spec))
        assert isinstance(outcome, Measurement)
        assert [rank.name for rank in outcome.ranks] == ["worker0", "worker1"]
        assert all(rank.cpu_s > 0 for rank in outcome.ranks)
        assert all(rank.peak_rss_mb > 1 for rank in outcome.ranks)
        assert all(rank.threads >= 2 for rank in outcome.ranks)
        assert outcome.cpu_cores == pytest.approx(outcome.cpu_s / outcome.wall_s)

    def test_a_world_tells_what_the_machine_did_meanwhile(
        self, launcher: WorkloadLauncher, spec: WorkloadSpec
    ) -> None:
        outcome = launcher.run(order(spec, steps=20))
        assert isinstance(outcome, Measurement)
        machine = outcome.machine
        assert machine is not None
        assert machine.seconds >= outcome.wall_s
        assert machine.others_cpus is not None
        # The world's own CPU time is not that of others.
        own_cpus = outcome.cpu_s / machine.seconds
        assert machine.others_cpus <= machine.cpus - own_cpus + 0.1

    def test_a_calibration_lasts_the_min_time(
        self, launcher: WorkloadLauncher, spec: WorkloadSpec
    ) -> None:
        outcome = launcher.run(order(spec, steps=None))
        assert isinstance(outcome, Measurement)
        assert outcome.wall_s >= 0.05

    def test_outcomes_survive_a_round_trip(
        self, launcher: WorkloadLauncher, spec: WorkloadSpec
    ) -> None:
        outcome = launcher.run(order(spec))
        assert survives(outcome)

    def test_a_failure_is_data_and_the_next_world_runs(
        self, launcher: WorkloadLauncher, spec: WorkloadSpec
    ) -> None:
        failed = launcher.run(order(spec, transports=["ibv"]))
        assert isinstance(failed, Failure)
        assert failed.failure == "init-failed"
        assert failed.message
        assert survives(failed)
        assert isinstance(launcher.run(order(spec)), Measurement)
