"""The process knobs of a rank, each in a process of its own."""

import os
import subprocess
import sys
import textwrap

import pytest

from tests.marks import needs_two_cpus
from tuner.cpus import named
from tuner.process_knobs import place_on_host

CPUS = sorted(os.sched_getaffinity(0))


def printed_by(code: str) -> list[str]:
    start = "import os, subprocess, sys, threading\nfrom tuner.process_knobs import ProcessKnobs\n"
    done = subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(code)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


@needs_two_cpus
def test_threads_of_before_and_after_are_bound() -> None:
    printed = printed_by(
        """
        over = threading.Event()
        before = threading.Thread(target=over.wait)
        before.start()
        knobs = ProcessKnobs()
        knobs.apply({"cpu_binding": "equal"}, 1, 2)
        after = threading.Thread(target=over.wait)
        after.start()
        print(sorted(knobs.cpus))
        print({frozenset(os.sched_getaffinity(t.native_id)) == {*knobs.cpus}
               for t in (before, after, threading.current_thread())})
        print(knobs.overridden() or "as set")
        over.set()
        """
    )
    assert printed == [str(CPUS[len(CPUS) // 2 :][: len(CPUS) // 2]), "{True}", "as set"]


@needs_two_cpus
def test_a_rank_that_a_bound_rank_starts_has_a_share_of_its_own() -> None:
    code = "ProcessKnobs().apply({'cpu_binding': 'equal'}, 0, 2)\n"
    inner = (
        "import os; from tuner.process_knobs import ProcessKnobs; "
        "ProcessKnobs().apply({'cpu_binding': 'equal'}, 1, 2); "
        "print(sorted(os.sched_getaffinity(0)))"
    )
    run = f"subprocess.run([sys.executable, '-c', {inner!r}])\nprint()"
    assert printed_by(code + run)[0] == str(CPUS[len(CPUS) // 2 :][: len(CPUS) // 2])


@needs_two_cpus
def test_none_undoes_what_the_program_has_bound_itself() -> None:
    printed = printed_by(
        """
        ProcessKnobs().apply({"cpu_binding": "equal"}, 0, 2)
        knobs = ProcessKnobs()
        knobs.apply({}, 0, 2)
        print(len(os.sched_getaffinity(0)))
        knobs.apply({"cpu_binding": "none"}, 0, 2)
        print(sorted(os.sched_getaffinity(0)))
        """
    )
    assert printed == [str(len(CPUS) // 2), str(CPUS)]


@needs_two_cpus
def test_a_process_that_is_kept_elsewhere_stays_there() -> None:
    code = "ProcessKnobs().apply({'cpu_binding': 'equal'}, 0, 2)\n"
    inner = (
        f"import os; os.sched_setaffinity(0, [{CPUS[-1]}]); "
        "from tuner.process_knobs import ProcessKnobs; "
        "ProcessKnobs().apply({'cpu_binding': 'equal'}, 0, 2); "
        "print(sorted(os.sched_getaffinity(0)))"
    )
    run = f"subprocess.run([sys.executable, '-c', {inner!r}])\nprint()"
    assert printed_by(code + run)[0] == str([CPUS[-1]])


def test_what_the_program_overrides_is_said() -> None:
    printed = printed_by(
        """
        knobs = ProcessKnobs()
        knobs.apply({"switch_interval": 0.0002, "num_worker_threads": 3}, 0, 1)
        print(round(sys.getswitchinterval(), 6), knobs.texts)
        sys.setswitchinterval(0.05)
        print(knobs.overridden())
        """
    )
    assert printed == [
        "0.0002 ['switch_interval=200us']",
        "the program set its own switch interval to 50ms after the tool: switch_interval had no "
        "effect",
    ]


@needs_two_cpus
def test_an_affinity_of_the_programs_own_is_said() -> None:
    printed = printed_by(
        """
        everything = os.sched_getaffinity(0)
        knobs = ProcessKnobs("the workload")
        knobs.apply({"cpu_binding": "equal"}, 0, 2)
        os.sched_setaffinity(0, everything)
        print(knobs.overridden())
        """
    )
    assert printed == [
        f"the workload set its own affinity to {named(CPUS)} after the tool: cpu_binding had no "
        "effect"
    ]


@needs_two_cpus
def test_what_is_named_no_more_is_set_back() -> None:
    printed = printed_by(
        """
        before = sys.getswitchinterval(), os.sched_getaffinity(0)
        knobs = ProcessKnobs()
        knobs.apply({"switch_interval": 0.001, "cpu_binding": "equal"}, 0, 2)
        knobs.apply({}, 0, 2)
        print(before == (sys.getswitchinterval(), os.sched_getaffinity(0)), knobs.texts)
        print(knobs.overridden() or "as set")
        """
    )
    assert printed == ["True []", "as set"]


def test_a_binding_that_cannot_be_set_is_said_from_then_on() -> None:
    printed = printed_by(
        """
        knobs = ProcessKnobs()
        try:
            knobs.apply({"cpu_binding": "equal"}, 0, None)
        except OSError as error:
            print(error)
        print(knobs.overridden())
        """
    )
    why = "init_rpc has no world_size, so the share of a rank is not known"
    assert printed == [why, f"cpu_binding could not be set: {why}"]


def test_nothing_named_sets_nothing() -> None:
    printed = printed_by(
        """
        before = sys.getswitchinterval(), os.sched_getaffinity(0)
        knobs = ProcessKnobs()
        knobs.apply({"cpu_binding": "none", "num_worker_threads": 3}, 0, 2)
        print(before == (sys.getswitchinterval(), os.sched_getaffinity(0)), knobs.texts)
        print(knobs.overridden() or "as set")
        """
    )
    assert printed == ["True []", "as set"]


def test_a_switch_interval_without_a_gil_is_said_to_have_no_effect() -> None:
    printed = printed_by(
        """
        import tuner.process_knobs
        tuner.process_knobs.has_gil = lambda: False
        knobs = ProcessKnobs()
        knobs.apply({"switch_interval": 0.001}, 0, 1)
        print(*knobs.texts)
        """
    )
    assert printed == ["switch_interval=1ms (no effect on an interpreter without a GIL)"]


@pytest.mark.parametrize(
    ("rank", "world_size", "variables", "place"),
    [
        (2, 3, {}, (2, 3)),
        (5, 8, {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_WORLD_SIZE": "2"}, (1, 4)),
        (1, 2, {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, (1, 2)),
        # Each process of torchrun starts a world of its own.
        (1, 2, {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "RANK": "0"}, (1, 2)),
        # The command of a host starts several ranks, with what it was told itself.
        (3, 4, {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_WORLD_SIZE": "2"}, (1, 2)),
        (0, 3, {"LOCAL_WORLD_SIZE": "x"}, (0, 3)),
    ],
)
def test_where_a_rank_is_on_its_host(
    rank: int, world_size: int, variables: dict[str, str], place: tuple[int, int]
) -> None:
    assert place_on_host(rank, world_size, variables) == place
