"""What the first runs of a program decide: whether it is tuned, where it runs, how it starts."""

from typing import Any, cast

import pytest

from testing.known import known
from testing.outcomes import measured
from tests.world.command.reported import counting, report_of, until
from tuner.errors import ProgramFailedError
from tuner.plan.program_request import ProgramRequest
from tuner.plan.program_spec import ProgramSpec
from tuner.world.command.discovering import Discovery, TriedRun
from tuner.world.command.judging import Counted, ProgramEnd, outcome_of
from tuner.world.command.program_commands import Starters
from tuner.world.command.reports import ProgramReport
from tuner.world.command.warm.warm_starting import Learnt
from tuner.world.environment import MachineState
from tuner.world.measurement import Failure, Measurement
from tuner.world.postmortem import RankRecord

NATIVE = "RuntimeError: no\nException raised from at (a.cpp:1):\nframe #0: c10::Error() + 0x9\nend"
OUTPUTS = {"no data": "ConnectionError: no data", "no module": "ModuleNotFoundError: No module 'a'",
           "native": NATIVE}  # fmt: skip
IN_NETWORK = "the program failed in a network of its own, and is run once more in the machine's: "
BY_CHANCE = "it failed by chance: it runs in a network of its own, too"
NOT_ALONE = "the program does not run in a network of its own; it has the machine's"
WARM, COLD = "each run starts warm", "each run starts cold"
DIFFERS = "started warm, the program fails: exit code 1"
OWN = "the program fails with its own options: exit code 1"
SECOND = "a second run of the program failed: exit code 1"


class FakeStarters:
    """A network of its own is there, and a server for the one command."""

    def __init__(self, told: list[str], *, cold: bool = False, begun: bool = False) -> None:
        self._told, self._cold, self._begun = told, cold, begun
        self.in_own_network, self.is_warm, self.how = True, False, "cold"

    def start_cold(self, *, alone: bool = True, keeps_servers: bool = False) -> None:
        self.is_warm = False

    def use_begun(self) -> bool:
        self.is_warm = self._begun
        return self._begun

    def leave_network(self) -> None:
        self.in_own_network = False

    def warm_up(self, learnt: Learnt, until_s: float) -> bool:
        assert learnt.modules == ("numpy",)
        self.is_warm, self.how = not self._cold, "cold" if self._cold else "warm"
        return self.is_warm

    def cool_down(self, why: str) -> None:
        self.is_warm, self.how = False, "cold"
        self._told.append(f"each run starts cold: {why}")


def discovered(
    report: ProgramReport, runs: str, told: list[str], *, begun: bool = False, **keys: Any
) -> ProgramSpec:
    """What is found out where runs go well, `ok`, or are ended once they have begun, or later, or
    print something and fail; all of them run, the first one warm where a server has `begun`."""
    request = ProgramRequest(commands=(("python", "main.py"),), **keys)
    ends = runs.split(", ")

    def run(asked: ProgramRequest, until_s: float, learn: bool) -> TriedRun:
        how = ends.pop(0)
        begun = how == "begun"
        end = ProgramEnd(
            exit_codes=(int(how not in ("ok", "begun", "cut")),), run_s=9.0 if begun else 0.1,
            output=OUTPUTS.get(how, ""), report=report, states=(),
        )  # fmt: skip
        learnt = Learnt(modules=("numpy",))
        outcome, was_cut = outcome_of(end, request), how in ("begun", "cut")
        return TriedRun(end, outcome, learnt, was_cut=was_cut, only_begun=begun)

    starters = cast(Starters, FakeStarters(told, cold=request.cold, begun=begun))
    *_, last = Discovery(request, starters, run, lambda spec: spec, told.append).runs(60.0)
    assert ends == []
    return last.subject


@pytest.fixture
def report() -> ProgramReport:
    return report_of(until(0, "ended"), until(1, "ended"))


@pytest.mark.parametrize(
    ("runs", "cold", "told", "starts", "calls"),
    [
        ("ok, ok", False, [WARM], "warm", 2),
        ("ok, ok", True, [COLD], "cold", 2),
        ("no data, ok, ok, ok", False, [IN_NETWORK, BY_CHANCE, WARM], "warm", 2),
        ("no data, ok, no data, ok", False, [IN_NETWORK, NOT_ALONE, WARM], "warm", 2),
        ("ok, no data, ok", False, [WARM], "warm", 2),
        ("ok, no data, no data, ok", False, [f"{COLD}: {DIFFERS}"], "cold", 2),
        ("ok, no data", True, [SECOND, COLD], "cold", 1),
        ("begun, ok", False, [WARM], "warm", 1),
        ("begun, no data, no data, ok", False, [f"{COLD}: {DIFFERS}"], "cold", 1),
        ("begun, no data, no data, no module", False, [f"{COLD}: {DIFFERS}", OWN], "cold", 0),
    ],
)
def test_a_run_that_fails_by_chance_decides_nothing(
    report: ProgramReport, runs: str, cold: bool, told: list[str], starts: str, calls: int
) -> None:
    said: list[str] = []
    spec = discovered(report, runs, said, cold=cold)
    assert [each[: len(start)] for each, start in zip(said, told, strict=True)] == told
    assert (spec.starts, len(spec.calls)) == (starts, calls)
    assert spec.own_network == (NOT_ALONE not in said)
    # What a run took that was ended once it had begun was spent.
    assert (9.0 in spec.run_s) == (runs.startswith("begun") and calls > 0)
    assert spec.may_vary == (9.0 in spec.run_s)


@pytest.mark.parametrize(
    ("runs", "told", "starts", "calls"),
    [
        ("ok, ok", [WARM], "warm", 2),
        # What is ended early shows all that another one would.
        ("cut", [WARM], "warm", 1),
        # What fails warm is run cold, which shows whether that is its own fault.
        ("no data, ok, ok", [WARM], "warm", 2),
        ("no data, ok, no data, no data, ok", [f"{COLD}: {DIFFERS}"], "cold", 2),
        # So is what goes well the first time alone.
        ("ok, no data, no data, ok", [f"{COLD}: {DIFFERS}"], "cold", 2),
        ("no data, begun, ok", [WARM], "warm", 1),
        # It is, and no other run is needed to know that.
        ("no data, no data, no data", [IN_NETWORK, OWN, WARM], "warm", 0),
    ],
)
def test_a_first_run_is_warm_where_the_files_say_what_is_imported(
    report: ProgramReport, runs: str, told: list[str], starts: str, calls: int
) -> None:
    said: list[str] = []
    spec = discovered(report, runs, said, begun=True)
    assert [each[: len(start)] for each, start in zip(said, told, strict=True)] == told
    assert (spec.starts, len(spec.calls)) == (starts, calls)


@pytest.mark.parametrize("runs", ["ok, ok", "begun, ok"])
@pytest.mark.parametrize("last", [("ready", "ready"), ("ended", "ready"), ("ready", "ended")])
def test_a_program_not_all_of_whose_ranks_shut_down_is_compared_by_its_whole_time(
    runs: str, last: tuple[str, str]
) -> None:
    """How many calls those made that do not is not known, however many runs were seen."""
    report = report_of(*(until(rank, event) for rank, event in enumerate(last)))
    spec = discovered(report, runs, [])
    assert (spec.shuts_down, spec.objective_name) == (False, "wall_s")


def test_a_cut_run_counts_as_if_it_had_been_ended_after_its_window() -> None:
    """It makes 20 calls a second."""
    driver = counting(0, *range(0, 400, 10), late_s=0.0)
    report = report_of(driver, counting(1, *[0] * 40, late_s=0.0))
    request = ProgramRequest(commands=(("python", "main.py"),))
    end = ProgramEnd(exit_codes=(None,), run_s=20.0, output="", report=report, states=(),
                     counted=Counted(calls=390, seconds=19.5, cpu_s={}))  # fmt: skip
    machine = MachineState(seconds=20.0, cpus=2, others_cpus=1.5)
    outcome = measured(outcome_of(end, request)).model_copy(update={"machine": machine})
    runs: list[TriedRun] = []

    def run(asked: ProgramRequest, until_s: float, learn: bool) -> TriedRun:
        runs.append(TriedRun(end, outcome, Learnt(modules=("numpy",)), True, only_begun=learn))
        return runs[-1]

    def windowed(spec: ProgramSpec) -> ProgramSpec:
        part = spec.steady
        if part is None:
            return spec
        chosen = {"window_s": part.window_s, "warm_up_s": part.warm_up_s, "window_is_chosen": True}
        return spec.model_copy(update=chosen)

    starters = cast(Starters, FakeStarters([]))
    (seen,) = Discovery(request, starters, run, windowed, lambda _: None).runs(60.0)
    spec, world = seen.subject, seen.run
    assert isinstance(world, Measurement)
    assert spec.window_s is not None
    assert known(world.program).calls == pytest.approx(20 * spec.window_s, abs=1)
    assert world.world_s == known(spec.steady).world_s < 20
    assert world.machine == machine


@pytest.mark.parametrize(
    ("idle", "calls", "goes_on"), [(0, [9] * 6, True), (1, [9] * 6, False), (0, [*range(6)], False)]
)
def test_what_is_stuck_with_all_threads_busy_may_run_with_more(
    idle: int, calls: list[int], goes_on: bool
) -> None:
    report = report_of(until(0, "ready"), until(1, "ready"))
    record = RankRecord("server", states=[{"idle": idle, "steps_done": call} for call in calls])
    end = ProgramEnd(exit_codes=(None,), run_s=9.0, output="", report=report, states=(record,))
    late = Failure(failure="timed-out", message="not done after 9 s", world_s=9.0)
    assert TriedRun(end, late).may_go_well_otherwise is goes_on


@pytest.mark.parametrize(("runs", "tries"), [("no module", 0), ("no data, no data", 1)])
def test_a_program_that_fails_in_every_network_cannot_be_tuned(runs: str, tries: int) -> None:
    """What Python cannot read is run once."""
    unknown, said = ProgramReport(ranks=(), processes=1, problems=()), list[str]()
    with pytest.raises(ProgramFailedError, match="the program cannot be tuned: exit code 1 after"):
        discovered(unknown, runs, said)
    assert len(said) == tries


def test_a_failure_is_told_without_the_frames_of_native_code(report: ProgramReport) -> None:
    said = list[str]()
    discovered(report, "native, native, native", said)
    own = next(each for each in said if "fails with its own options" in each)
    assert own.endswith("\n    RuntimeError: no\n    end")
