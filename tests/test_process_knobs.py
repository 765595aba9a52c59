"""The process knobs of a rank, each in a process of its own."""

import os
import subprocess
import sys

import pytest

from tests.marks import needs_two_cpus
from tuner.cpus import named
from tuner.process_knobs import place_on_host

CPUS = sorted(os.sched_getaffinity(0))
HALF = len(CPUS) // 2
WHY = "init_rpc has no world_size, so the share of a rank is not known"
BEGIN = """
import os, subprocess, sys, threading, torch
import tuner.process_knobs
from tuner.process_knobs import ProcessKnobs

def state():
    return sys.getswitchinterval(), sorted(os.sched_getaffinity(0))

def applied(values, index=0, ranks=2, who="the program"):
    knobs = ProcessKnobs(who)
    knobs.apply(values, index, ranks)
    return knobs

before = state()
"""


def printed_by(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


CASES = {
    "what the program overrides is said": ("""
knobs = applied({"switch_interval": 0.0002, "num_worker_threads": 3})
print(round(sys.getswitchinterval(), 6), knobs.texts)
sys.setswitchinterval(0.05)
print(knobs.overridden())
""", ["0.0002 ['switch_interval=200us']",
      "the program set its own switch interval to 50ms after the tool: switch_interval had no "
      "effect"]),
    "a binding that cannot be set is said from then on": ("""
knobs = ProcessKnobs()
try:
    knobs.apply({"cpu_binding": "equal"}, 0, None)
except OSError as error:
    print(error)
print(knobs.overridden())
""", [WHY, f"cpu_binding could not be set: {WHY}"]),
    "intra-op threads are set, and a number that the program sets later is said": ("""
knobs = applied({"intra_op_threads": 3})
print(torch.get_num_threads(), *knobs.texts, knobs.overridden() or "as set")
thread = threading.Thread(target=torch.set_num_threads, args=[5])
thread.start()
thread.join()
print(knobs.overridden())
""", ["3 intra_op_threads=3 as set",
      "the program called torch.set_num_threads(5) after the tool: intra_op_threads=3 had no "
      "effect"]),
    "a switch interval without a GIL has no effect": ("""
tuner.process_knobs.has_gil = lambda: False
print(*applied({"switch_interval": 0.001}).texts)
""", ["switch_interval=1ms (no effect on an interpreter without a GIL)"]),
}  # fmt: skip
BINDING = {
    "threads of before and after are bound": ("""
over = threading.Event()
threads = [threading.Thread(target=over.wait) for _ in range(2)]
threads[0].start()
knobs = applied({"cpu_binding": "equal"}, 1)
threads[1].start()
print(sorted(knobs.cpus))
print({frozenset(os.sched_getaffinity(each.native_id)) == {*knobs.cpus}
       for each in (*threads, threading.current_thread())})
print(knobs.overridden() or "as set")
over.set()
""", [str(CPUS[HALF:][:HALF]), "{True}", "as set"]),
    "none undoes what the program has bound itself": ("""
applied({"cpu_binding": "equal"})
knobs = applied({})
print(len(os.sched_getaffinity(0)))
knobs.apply({"cpu_binding": "none"}, 0, 2)
print(before == state())
""", [str(HALF), "True"]),
    "a bound rank has no more intra-op threads than CPUs, unless a number is named": ("""
torch.set_num_threads(len(before[1]) + 1)
knobs = applied({"cpu_binding": "equal"})
print(torch.get_num_threads(), f"intra_op_threads={len(knobs.cpus)}" in knobs.texts)
torch.set_num_threads(len(before[1]) + 1)
print(knobs.overridden() or "as set")
knobs.apply({"cpu_binding": "equal", "intra_op_threads": len(before[1]) + 2}, 0, 2)
print(torch.get_num_threads())
""", [f"{HALF} True", "as set", str(len(CPUS) + 2)]),
    "an affinity of the program's own is said": ("""
knobs = applied({"cpu_binding": "equal"}, who="the workload")
os.sched_setaffinity(0, before[1])
print(knobs.overridden())
""", [f"the workload set its own affinity to {named(CPUS)} after the tool: cpu_binding had no "
      "effect"]),
    "what is named no more is set back": ("""
knobs = applied({"switch_interval": 0.001, "cpu_binding": "equal"})
knobs.apply({}, 0, 2)
print(before == state(), knobs.texts, knobs.overridden() or "as set")
""", ["True [] as set"]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "printed"),
    [pytest.param(*case, id=name, marks=[needs_two_cpus] if name in BINDING else [])
     for name, case in {**CASES, **BINDING}.items()],
)  # fmt: skip
def test_process_knobs(code: str, printed: list[str]) -> None:
    assert printed_by(code) == printed


@needs_two_cpus
def test_a_process_that_a_bound_rank_starts_has_a_share_of_its_own_or_stays_where_it_is() -> None:
    for first, rank, cpus in (
        ("", 1, CPUS[HALF:][:HALF]), (f"os.sched_setaffinity(0, [{CPUS[-1]}])", 0, [CPUS[-1]]),
    ):  # fmt: skip
        inner = f"{BEGIN}{first}\napplied({{'cpu_binding': 'equal'}}, {rank})\nprint(state()[1])"
        start = f"subprocess.run([sys.executable, '-c', {inner!r}])"
        assert printed_by(f"applied({{'cpu_binding': 'equal'}})\n{start}") == [str(cpus)]


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
