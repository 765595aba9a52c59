"""The lines that bind a rank, beside what the tool does; the machines are folders of files."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.specs import for_all, workload_spec
from tests.marks import needs_two_cpus
from tuner import cpus as binding
from tuner.cpus import SYS, named, share_of_rank
from tuner.present.how_to_use import init_rpc_lines
from tuner.process_knobs import place_on_host
from tuner.recommended.python_module import BIND_CPUS, BINDING_IMPORTS

MARK = "RPC_TUNER_CPUS"
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE")
Cpus = list[int]
LINES = "\n".join(["import os", *BINDING_IMPORTS, BIND_CPUS])


def write_machine(sys: Path, nodes: list[list[Cpus]], *, has_nodes: bool, has_cores: bool) -> None:
    """Write what the kernel says of a machine: the logical CPUs of each core of each node."""
    files = {}
    for number, node in enumerate(nodes):
        cpus = list(chain(*node))
        for cpu in cpus:
            (sys / f"cpu/cpu{cpu}/{f'node{number}' * has_nodes}").mkdir(parents=True)
        if has_cores:
            for core in node:
                for cpu in core:
                    files[sys / f"cpu/cpu{cpu}/topology/thread_siblings_list"] = core
    for file, cpus in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{named(cpus)}\n")


@st.composite
def machines(draw: st.DrawFn) -> tuple[list[list[Cpus]], set[int]]:
    """The CPUs of each core of each node, and those that may be used."""
    cores = st.lists(st.integers(1, 2), min_size=1, max_size=5)
    sizes = draw(st.lists(cores, min_size=1, max_size=4))
    cpus = draw(st.permutations(range(sum(map(sum, sizes)))))
    numbers = iter(cpus)
    nodes = [[sorted(islice(numbers, size)) for size in node] for node in sizes]
    return nodes, draw(st.just(set(cpus)) | st.sets(st.sampled_from(cpus), min_size=1))


def bound_by_the_lines(
    usable: set[int], sys: Path, places: list[tuple[int, int]], variables: Mapping[str, str]
) -> Iterator[set[int]]:
    """What the lines bind each of these ranks to, each with the size of its world."""
    bound: list[set[int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda pid: usable)
        patch.setattr(os, "sched_setaffinity", lambda thread, cpus: bound.append({*cpus}))
        for name in (*TORCHRUN, MARK):
            patch.setenv(name, "")  # it is as before at the end, also if the lines set it
            patch.delenv(name)
        for name, text in variables.items():
            patch.setenv(name, text)
        known: dict[str, Any] = {}
        exec(compile(LINES.replace(str(SYS), str(sys)), "lines", "exec"), known)  # noqa: S102 - the lines to paste
        for place in places:
            bound.clear()
            known["bind_cpus"](*place)
            (share,) = {frozenset(each) for each in bound}
            yield set(share)


@given(machines(), st.integers(1, 14), st.booleans(), st.booleans())
def test_the_lines_compute_the_shares_of_the_tool(
    machine: tuple[list[list[Cpus]], set[int]], ranks: int, has_nodes: bool, has_cores: bool
) -> None:
    nodes, usable = machine
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        write_machine(Path(folder), nodes, has_nodes=has_nodes, has_cores=has_cores)
        places = [(rank, ranks) for rank in range(ranks)]
        pasted = [*bound_by_the_lines(usable, Path(folder), places, {})]
        patch.setattr(os, "sched_getaffinity", lambda pid: usable)
        patch.setattr(binding, "usable_cpus", lambda: len(usable))
        assert pasted == [{*share_of_rank(rank, ranks, Path(folder))} for rank in range(ranks)]


@pytest.mark.parametrize(
    ("rank", "world_size", "torchrun"),
    [
        (2, 3, ("", "", "", "", "")),
        (5, 8, ("5", "8", "1", "4", "2")),
        (1, 2, ("0", "1", "0", "1", "1")),  # one process of torchrun, which starts the ranks
        (1, 2, ("0", "2", "0", "2", "")),  # each process of torchrun starts a world of its own
    ],
)
def test_the_lines_find_the_place_on_the_host_as_the_tool_does(
    rank: int, world_size: int, torchrun: tuple[str, ...], tmp_path: Path
) -> None:
    usable = set(range(24))
    write_machine(tmp_path, [[[cpu] for cpu in usable]], has_nodes=True, has_cores=True)
    variables = {name: text for name, text in zip(TORCHRUN, torchrun, strict=True) if text}
    (found,) = bound_by_the_lines(usable, tmp_path, [(rank, world_size)], variables)
    index, ranks = place_on_host(rank, world_size, variables)
    each = 24 // ranks
    assert found == set(range(index * each, (index + 1) * each))


AFFINITIES = (
    "print(sorted({tuple(sorted(os.sched_getaffinity(int(thread))))"
    " for thread in os.listdir('/proc/self/task')}))"
)


@needs_two_cpus
def test_the_lines_bind_every_thread_of_a_process_twice_alike() -> None:
    lines = init_rpc_lines(for_all(cpu_binding="equal", switch_interval="200us"), workload_spec())
    before_rpc = lines.partition("options = ")[0]
    program = (
        "import threading\nrank, world_size = 1, 2\nover = threading.Event()\n"
        f"threading.Thread(target=over.wait).start()\n{before_rpc}\n"
        "print(len(os.listdir('/proc/self/task')) > 1, round(sys.getswitchinterval(), 6))\n"
        f"{AFFINITIES}\nbind_cpus(rank, world_size)\n{AFFINITIES}\nover.set()\n"
    )
    share = f"{[share_of_rank(1, 2)]}"
    assert printed_by(sys.executable, "-c", program) == ["True 0.0002", share, share]


@needs_two_cpus
@pytest.mark.parametrize("tool", [0, 1])
def test_a_rank_that_a_bound_rank_starts_has_a_share_of_its_own(tool: int) -> None:
    """Whichever of the two the tool binds, and the lines the other."""
    binds = [f"{LINES}\nbind_cpus({rank}, 2)\n" for rank in range(2)]
    binds[tool] = f"import os\nfrom tuner.cpus import bind_rank\nbind_rank({tool}, 2)\n"
    inner = f"{binds[1]}{AFFINITIES}\n"
    outer = f"{binds[0]}import subprocess, sys\nsubprocess.run([sys.executable, '-c', {inner!r}])"
    assert printed_by(sys.executable, "-c", outer) == [f"{[share_of_rank(1, 2)]}"]


def printed_by(*command: str) -> list[str]:
    environment = {name: text for name, text in os.environ.items() if name not in (*TORCHRUN, MARK)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.splitlines()
