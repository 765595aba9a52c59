"""Sets the process knobs of one rank, and sees whether its program overrides them.

Standard library only: it runs in the processes of programs, too. The names of the knobs are those
of `tuner.plan.knobs`.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread
from typing import Any

from tuner.cpus import CpuSet, bind_rank, named, unbind_rank
from tuner.text import exact_duration

CPU_BINDING, SWITCH_INTERVAL = "cpu_binding", "switch_interval"
INTRA_OP_THREADS = "intra_op_threads"
UNBOUND, EQUAL = "none", "equal"
"""The values of `cpu_binding`: with `EQUAL` each rank is kept to its share; see `tuner.cpus`."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""The environment variables that say how many threads compute for an operator, also of libraries
beside torch; they are read as those are loaded."""


class ProcessKnobs:
    """Those of this process; none is set before `apply`, and `who` may override them."""

    def __init__(self, who: str = "the program") -> None:
        self._who = who
        self.cpus: CpuSet | None = None
        """What the process is kept to; None: it is not bound."""
        self.switch_interval_s: float | None = None
        """None: it is the program's own."""
        self.intra_op_threads: int | None = None
        """None: it is the program's own."""
        self._names_threads = False
        self._own_interval_s = 0.0
        self._problem = ""

    def apply(self, values: Mapping[str, object], index: int, ranks: int | None) -> None:
        """Set what `values` has, by knob, of `cpu_binding`, `switch_interval` and
        `intra_op_threads`, which is PyTorch's pool: where a bound rank has no number of its own
        there, no more threads than its share has CPUs.

        What was set before and is not named any more is set back, but for the intra-op threads.
        `none` that is named undoes a binding of the program's own, if `tuner.load_rpc_options` or
        the lines to paste made it. The rank has place `index`, from 0, among the `ranks` of its
        host; None: not known. OSError if CPU affinity cannot be set here; `overridden` says so from
        now on, too.
        """
        interval_s = values.get(SWITCH_INTERVAL)
        if isinstance(interval_s, int | float):
            if self.switch_interval_s is None:
                self._own_interval_s = switch_interval_s()
            sys.setswitchinterval(interval_s)
            self.switch_interval_s = switch_interval_s()
        elif self.switch_interval_s is not None:
            sys.setswitchinterval(self._own_interval_s)
            self.switch_interval_s = None
        self._problem = ""
        try:
            if values.get(CPU_BINDING) == EQUAL:
                if ranks is None:
                    raise OSError("init_rpc has no world_size, so the share of a rank is not known")
                self.cpus = bind_rank(index, ranks)
            elif self.cpus is not None or values.get(CPU_BINDING) == UNBOUND:
                unbind_rank()
                self.cpus = None
        except OSError as error:
            self._problem = f"{CPU_BINDING} could not be set: {error.strerror or error}"
            raise
        finally:
            self._set_intra_op_threads(values.get(INTRA_OP_THREADS))

    def _set_intra_op_threads(self, named: object) -> None:
        """Before the agent starts: a thread that has computed keeps the number that it had then."""
        self._names_threads = isinstance(named, int)
        if isinstance(named, int):
            self.intra_op_threads = named
        elif self.cpus is not None and len(self.cpus) < _torch().get_num_threads():
            # Threads that wait for each other on one CPU are many times as slow.
            self.intra_op_threads = len(self.cpus)
        else:
            self.intra_op_threads = None
        if self.intra_op_threads is not None:
            _torch().set_num_threads(self.intra_op_threads)

    @property
    def texts(self) -> list[str]:
        """What is set, each as `switch_interval=1ms`; of a binding also the logical CPUs."""
        found = []
        if self.cpus is not None:
            found.append(f"{CPU_BINDING}={EQUAL} (CPUs {named(self.cpus)})")
        if self.switch_interval_s is not None:
            without = "" if has_gil() else " (no effect on an interpreter without a GIL)"
            found.append(f"{SWITCH_INTERVAL}={exact_duration(self.switch_interval_s)}{without}")
        if self.intra_op_threads is not None:
            found.append(f"{INTRA_OP_THREADS}={self.intra_op_threads}")
        return found

    def overridden(self) -> str:
        """What is not as it was to be set, as a clause; empty if nothing."""
        if self._problem:
            return self._problem
        with suppress(OSError):
            found = os.sched_getaffinity(os.getpid())
            if self.cpus is not None and found != {*self.cpus}:
                return (
                    f"{self._who} set its own affinity to {named([*found])} after the tool: "
                    f"{CPU_BINDING} had no effect"
                )
        if self.switch_interval_s not in (None, interval_s := switch_interval_s()):
            return (
                f"{self._who} set its own switch interval to {exact_duration(interval_s)} after "
                f"the tool: {SWITCH_INTERVAL} had no effect"
            )
        if self._names_threads:
            threads = intra_op_threads_now()
            if threads != self.intra_op_threads:
                return (
                    f"{self._who} called torch.set_num_threads({threads}) after the tool: "
                    f"{INTRA_OP_THREADS}={self.intra_op_threads} had no effect"
                )
        return ""


def intra_op_threads_now() -> int:
    """What was set last, by any thread, for those that compute for the first time."""
    found: list[int] = []
    # A thread that has computed goes on with the number that held then, and tells that.
    thread = Thread(target=lambda: found.append(_torch().get_num_threads()))
    try:
        thread.start()
    except RuntimeError:  # there may be no more threads, as at the interpreter's end
        return int(_torch().get_num_threads())
    thread.join()
    return found[0]


def _torch() -> Any:
    # Who starts RPC has imported it; the commands of the tool, which have not, set nothing.
    return sys.modules["torch"]


def switch_interval_s() -> float:
    """The interpreter's, in seconds; it keeps whole microseconds."""
    return round(sys.getswitchinterval(), 6)


def traced_interval_s() -> float | None:
    """`switch_interval_s`; None where it means nothing."""
    return switch_interval_s() if has_gil() else None


def has_gil() -> bool:
    """Whether threads of this interpreter take turns, so that a switch interval means something."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def number_in(variable: str, otherwise: int, environment: Mapping[str, str] = os.environ) -> int:
    """The number that an environment variable has; `otherwise` if it has none."""
    text = environment.get(variable, "")
    return int(text) if text.isdecimal() else otherwise


def place_on_host(rank: int, world_size: int, environment: Mapping[str, str]) -> tuple[int, int]:
    """The place of a rank of a world among those of its host, from 0, and how many the host has.

    torchrun's variables tell it, and where nothing tells it, all ranks are on this host.
    """
    hosts = max(1, number_in("GROUP_WORLD_SIZE", 1, environment))
    ranks = number_in("LOCAL_WORLD_SIZE", 0, environment)
    if ranks * hosts == world_size and number_in("RANK", rank, environment) == rank:
        return number_in("LOCAL_RANK", rank % ranks, environment), ranks
    # Each host has started ranks of its own, which inherit its variables.
    ranks = max(1, -(-world_size // hosts))
    return rank % ranks, ranks
