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


HALF = len(CPUS) // 2
WHY = "init_rpc has no world_size, so the share of a rank is not known"
BIND = "ProcessKnobs().apply({'cpu_binding': 'equal'}, %d, 2)"
STATE = """
before = sys.getswitchinterval(), os.sched_getaffinity(0)
knobs = ProcessKnobs()
knobs.apply(%s, 0, 2)
%s
print(before == (sys.getswitchinterval(), os.sched_getaffinity(0)), knobs.texts)
print(knobs.overridden() or "as set")
"""


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        pytest.param(
            """
            knobs = ProcessKnobs()
            knobs.apply({"switch_interval": 0.0002, "num_worker_threads": 3}, 0, 1)
            print(round(sys.getswitchinterval(), 6), knobs.texts)
            sys.setswitchinterval(0.05)
            print(knobs.overridden())
            """,
            [
                "0.0002 ['switch_interval=200us']",
                "the program set its own switch interval to 50ms after the tool: switch_interval "
                "had no effect",
            ],
            id="what the program overrides is said",
        ),
        pytest.param(
            """
            knobs = ProcessKnobs()
            try:
                knobs.apply({"cpu_binding": "equal"}, 0, None)
            except OSError as error:
                print(error)
            print(knobs.overridden())
            """,
            [WHY, f"cpu_binding could not be set: {WHY}"],
            id="a binding that cannot be set is said from then on",
        ),
        pytest.param(
            STATE % ({"cpu_binding": "none", "num_worker_threads": 3}, ""),
            ["True []", "as set"],
            id="nothing named sets nothing",
        ),
        pytest.param(
            """
            import tuner.process_knobs
            tuner.process_knobs.has_gil = lambda: False
            knobs = ProcessKnobs()
            knobs.apply({"switch_interval": 0.001}, 0, 1)
            print(*knobs.texts)
            """,
            ["switch_interval=1ms (no effect on an interpreter without a GIL)"],
            id="a switch interval without a GIL has no effect",
        ),
    ],
)
def test_process_knobs(code: str, printed: list[str]) -> None:
    assert printed_by(code) == printed


@needs_two_cpus
@pytest.mark.parametrize(
    ("code", "printed"),
    [
        pytest.param(
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
            """,
            [str(CPUS[HALF:][:HALF]), "{True}", "as set"],
            id="threads of before and after are bound",
        ),
        pytest.param(
            """
            ProcessKnobs().apply({"cpu_binding": "equal"}, 0, 2)
            knobs = ProcessKnobs()
            knobs.apply({}, 0, 2)
            print(len(os.sched_getaffinity(0)))
            knobs.apply({"cpu_binding": "none"}, 0, 2)
            print(sorted(os.sched_getaffinity(0)))
            """,
            [str(HALF), str(CPUS)],
            id="none undoes what the program has bound itself",
        ),
        pytest.param(
            """
            everything = os.sched_getaffinity(0)
            knobs = ProcessKnobs("the workload")
            knobs.apply({"cpu_binding": "equal"}, 0, 2)
            os.sched_setaffinity(0, everything)
            print(knobs.overridden())
            """,
            [
                f"the workload set its own affinity to {named(CPUS)} after the tool: cpu_binding "
                "had no effect"
            ],
            id="an affinity of the program's own is said",
        ),
        pytest.param(
            STATE % ({"switch_interval": 0.001, "cpu_binding": "equal"}, "knobs.apply({}, 0, 2)"),
            ["True []", "as set"],
            id="what is named no more is set back",
        ),
    ],
)
def test_process_knobs_of_several_cpus(code: str, printed: list[str]) -> None:
    assert printed_by(code) == printed


@needs_two_cpus
def test_a_process_that_a_bound_rank_starts_has_a_share_of_its_own_or_stays_where_it_is() -> None:
    for first, rank, cpus in (
        ("", 1, CPUS[HALF:][:HALF]), (f"os.sched_setaffinity(0, [{CPUS[-1]}]); ", 0, [CPUS[-1]]),
    ):  # fmt: skip
        inner = (
            f"import os; {first}from tuner.process_knobs import ProcessKnobs; {BIND % rank}; "
            "print(sorted(os.sched_getaffinity(0)))"
        )
        run = f"{BIND % 0}\nsubprocess.run([sys.executable, '-c', {inner!r}])"
        assert printed_by(run) == [str(cpus)]


def test_where_a_rank_is_on_its_host() -> None:
    cases: tuple[tuple[int, int, dict[str, str], tuple[int, int]], ...] = (
        (2, 3, {}, (2, 3)),
        (5, 8, {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_WORLD_SIZE": "2"}, (1, 4)),
        (1, 2, {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, (1, 2)),
        # Each process of torchrun starts a world of its own.
        (1, 2, {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "RANK": "0"}, (1, 2)),
        # The command of a host starts several ranks, with what it was told itself.
        (3, 4, {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_WORLD_SIZE": "2"}, (1, 2)),
        (0, 3, {"LOCAL_WORLD_SIZE": "x"}, (0, 3)),
    )
    for rank, world_size, variables, place in cases:
        assert place_on_host(rank, world_size, variables) == place
