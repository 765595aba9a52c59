"""Programs that nobody edited as worlds: what is found out of them, and what comes of a run."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tuner
from testing.known import known
from testing.launching import PROGRAMS, PYTHON, Launched, launched, refused
from testing.programs import free_port, with_sitecustomize
from tests.marks import needs_two_cpus
from tuner.errors import LauncherError
from tuner.plan.draft import draft_plan
from tuner.plan.objectives import OBJECTIVES
from tuner.plan.program_spec import ProgramSpec, intra_op_threads
from tuner.trace.files.reader import read_trace
from tuner.world.command.program_launcher import ProgramLauncher
from tuner.world.launcher import TraceOrder

pytestmark = pytest.mark.world


@pytest.fixture(scope="module")
def spawning() -> Iterator[Launched]:
    command = [PYTHON, str(PROGRAMS / "spawn_env.py"), "3", "2"]
    with launched(command, metric="calls made=^calls: ([0-9]+)") as running:
        yield running


def test_the_first_runs_show_ranks_roles_and_options(spawning: Launched) -> None:
    spec = spawning.spec
    assert [(rank.name, rank.role) for rank in spec.ranks] == [
        ("agent", "agent"), ("observer1", "observer"), ("observer2", "observer"),
    ]  # fmt: skip
    assert spec.default_of("observer", "num_worker_threads") == 16
    assert spec.default_of("agent", "transports") is None
    assert set(intra_op_threads(spec)) == {"agent", "observer"}
    assert spec.calls == (32, 32)
    assert spec.shuts_down
    assert ProgramSpec.model_validate(spec.model_dump(mode="json")) == spec


def test_it_starts_warm_and_leaves_a_trace_of_the_same_calls(
    spawning: Launched, tmp_path: Path
) -> None:
    assert not any("cold" in sentence for sentence in spawning.told)
    order = TraceOrder(path=tmp_path / "trace.json", operators=False)
    spawning.measured(trace=order)
    trace = read_trace(order.path)
    assert (len(trace.calls), trace.losses) == (32, ())


def test_fewer_threads_take_longer_and_call_as_often(spawning: Launched) -> None:
    one = spawning.measured(config={"observer": {"num_worker_threads": 1}})
    eights = [spawning.measured(config={"observer": {"num_worker_threads": 8}}) for _ in range(3)]
    for outcome in (one, *eights):
        program, machine = known(outcome.program), known(outcome.machine)
        assert program.calls == program.metric == 32
        assert outcome.wall_s == program.rpc_active_s
        assert outcome.wall_s < outcome.world_s
        assert [rank.name for rank in outcome.ranks] == ["agent", "observer1", "observer2"]
        assert all(known(rank.peak_rss_mb) > 50 and rank.threads > 8 for rank in outcome.ranks)
        # It naps: whoever uses the CPUs meanwhile, it is not this program.
        assert known(machine.others_cpus) <= machine.cpus
    # Two steps of 8 naps of 10 ms on each server, one after another or at once. The time begins
    # when the last rank is ready, and the agent may be ready a little earlier.
    assert one.wall_s > 0.12
    # A busy machine makes some of them late.
    assert one.wall_s > 2 * min(eight.wall_s for eight in eights)


@needs_two_cpus
@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_intra_op_threads_are_those_of_the_configuration_before_rpc_starts(cold: bool) -> None:
    command = [PYTHON, str(PROGRAMS / "computes_early.py"), free_port(), "0"]
    with launched(command, cold=cold, metric=r"early=^early threads: (\d+)") as program:
        own = program.spec.default_of("worker", "intra_op_threads")
        assert not program.spec.sets_intra_op_threads

        def early(**config: object) -> float | None:
            return known(program.measured(config=config).program).metric

        assert early() == early(**{"*": {"intra_op_threads": own}}) == own
        assert early(**{"*": {"intra_op_threads": 1}}) == 1
        # By role: the role of a process is known in init_rpc.
        assert early(worker={"intra_op_threads": 1}) == own
        assert early() == own


def test_a_program_that_sets_its_own_intra_op_threads_overrides_the_knob() -> None:
    command = [PYTHON, str(PROGRAMS / "computes_early.py"), free_port(), "5"]
    with launched(command) as program:
        assert program.spec.sets_intra_op_threads
        assert program.spec.default_of("worker", "intra_op_threads") == 5
        assert "torch.set_num_threads(5) after the tool: intra_op_threads=3 had no effect" in (
            program.failed(config={"*": {"intra_op_threads": 3}}).message
        )
        if len(os.sched_getaffinity(0)) > 1:
            # No more threads than CPUs is only what binding does by itself.
            program.measured(config={"*": {"cpu_binding": "equal"}})


def test_a_deadline_ends_all_of_it(spawning: Launched, tmp_path: Path) -> None:
    failure = spawning.failed(deadline_s=0.3, failure_folder=tmp_path / "failures" / "late")
    assert failure.failure == "timed-out"
    assert re.match(r"not done after [\d.]+ s \(", failure.message)
    assert (tmp_path / "failures" / "late" / "failure.json").is_file()


@pytest.mark.thorough
def test_of_a_program_that_starts_rpc_again_all_counts_and_nothing_in_between() -> None:
    command = [PYTHON, str(PROGRAMS / "starts_again.py"), free_port(), "3"]
    with launched(command, metric="calls made=calls: ([0-9]+)") as running:
        outcome = running.measured()
    assert [rank.name for rank in running.spec.ranks] == ["node0", "node1"]
    assert [rank.name for rank in outcome.ranks] == ["node0", "node1"]
    program = known(outcome.program)
    assert program.calls == program.metric == 30
    # Three times ten naps of 20 ms; between them 0.3 s each.
    assert 0.6 < outcome.wall_s < outcome.world_s - 0.6


@pytest.mark.thorough
def test_a_window_goes_on_while_rpc_is_started_again() -> None:
    command = [PYTHON, str(PROGRAMS / "starts_again.py"), free_port(), "0"]
    # A busy machine takes seconds to start it again: the first calls are in the window, too.
    with launched(command, window="2s", warm_up="10ms", deadline="60s") as running:
        outcome = running.measured()
    # Ten calls take 0.2 s at least, and then none is made for 0.3 s.
    assert 0 < known(outcome.program).calls <= 20 * outcome.wall_s + 20


TORCHRUN = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "names"),
    [
        ([PYTHON, "own_options.py", "29613"], ["trainer0", "trainer1"]),
        (["sh", "-c", "python forked.py"], ["worker0", "worker1"]),
        ([PYTHON, "with_process_group.py", "29614"], ["collector0", "collector1"]),
        ([*TORCHRUN, "each_host.py"], ["worker0", "worker1"]),
    ],
)
def test_however_ranks_are_started_they_are_configured_traced_and_counted(
    command: list[str], names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROGRAMS)
    monkeypatch.setenv("PATH", str(Path(PYTHON).parent), prepend=os.pathsep)
    theirs = with_sitecustomize(tmp_path, monkeypatch)
    order = TraceOrder(path=tmp_path / "trace.json", operators=False)
    with launched(command, metric="calls made=calls: ([0-9]+)") as running:
        outcome = running.measured(config={"*": {"num_worker_threads": 3}}, trace=order)
    assert theirs.read_text()
    assert [rank.name for rank in running.spec.ranks] == names
    trace = read_trace(order.path)
    assert [rank.num_worker_threads for rank in trace.ranks] == [3, 3]
    program = known(outcome.program)
    assert running.spec.calls == (program.calls,) * 2
    assert len(trace.calls) == program.calls == program.metric


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("commands", "keys", "told"),
    [
        (["python -c print()"], {}, "it ended after .* with exit code 0 and never called init_rpc, "
         "as far as the hook sees: it reaches .* environment of its own, as after os.environ.cl"),
        (["python -c __import__('os').abort()"], {}, "signal 6, SIGABRT after"),
        (["python by_rank.py --rank 0", "python -E by_rank.py --rank 1"], {},
         "the hook did not reach rank 1: it reaches every Python but one that is"),
        (["python -m torch.distributed.run --nproc-per-node 2 each_host.py tcp://127.0.0.1:29611"],
         {}, "not done after .*under torchrun no process listens at a tcp:// address of the pro"),
        (["python never_ends.py"], {"deadline": "10s", "window": "off"},
         "not done after .*; a larger --budget, or --deadline, gives it more time"),
    ],
)  # fmt: skip
def test_a_program_that_cannot_be_tuned(
    commands: list[str], keys: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROGRAMS)
    monkeypatch.setenv("PATH", str(Path(PYTHON).parent), prepend=os.pathsep)
    said = refused(*map(str.split, commands), cold=True, **keys)
    assert re.match(f"the program cannot be tuned: {told}", said)


def test_a_command_that_is_not_there() -> None:
    assert refused(["no-such-command"]) == (
        "the program: 'no-such-command' is no file, and no command on the PATH"
    )
    script = str(PROGRAMS / "forked.py")
    assert refused([script]) == (
        f"the program: {script!r} is not executable; did you mean python {script}?"
    )


def test_a_workload_is_not_for_this_launcher() -> None:
    with ProgramLauncher() as launcher, pytest.raises(LauncherError, match="runs programs"):
        launcher.subject_of(draft_plan({"workload": "udf"}))


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["driver_alone", "servers_alone", "os_exit", "sys_exit"])
def test_a_program_not_all_of_whose_ranks_shut_down_is_timed_to_its_end(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOW", how)
    command = [PYTHON, "-W", "ignore", str(PROGRAMS / "leaves.py"), free_port()]
    with launched(command, expect="^total 55$") as running:
        assert (running.spec.shuts_down, running.spec.objective_name) == (False, "wall_s")
        assert not any("cold" in each or "failed" in each for each in running.told)
        outcome = running.measured(objective=OBJECTIVES["wall_s"])
    assert known(OBJECTIVES["wall_s"].read(outcome)) == outcome.world_s == outcome.wall_s


@pytest.mark.thorough
def test_a_search_of_a_program_without_shutdown_compares_its_whole_time(tmp_path: Path) -> None:
    driver, server = ([PYTHON, str(PROGRAMS / "cases/never_shuts_down.py"), rank] for rank in "01")
    space = {"num_worker_threads": [1]}
    found = tuner.tune(
        program=driver, beside=[server], space=space, budget="60s", max_blocks=2,
        out=tmp_path / "study",
    )  # fmt: skip
    assert found.objective.name == "wall_s"
    # However few worlds a busy machine has time for.
    assert found.trials["worlds_run"].sum() > 0
    assert found.trials["worlds_failed"].sum() == 0


@pytest.mark.thorough
@needs_two_cpus
def test_what_a_program_has_bound_itself_is_its_own() -> None:
    command = [PYTHON, "-W", "ignore", str(PROGRAMS / "bound.py"), free_port(), "binds"]
    with launched(command) as running:
        assert running.spec.own["worker"]["cpu_binding"] == "equal"


@pytest.mark.thorough
@needs_two_cpus
def test_a_program_that_overrides_a_process_knob_has_failed_with_it() -> None:
    command = [PYTHON, "-W", "ignore", str(PROGRAMS / "bound.py"), free_port(), "overrides"]
    with launched(command) as running:
        failure = running.failed(config={"*": {"switch_interval": 0.001}})
        running.measured()
    assert failure.failure == "init-failed"
    assert failure.message == (
        "the program set its own switch interval to 20ms after the tool: switch_interval had no "
        "effect"
    )
