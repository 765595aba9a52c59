"""Hooks `torch.distributed.rpc` of a program that knows nothing of it: options, and what happens.

Runs in the program's own processes, with torch and the standard library alone.
"""

import builtins
import functools
import os
import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import Any
from weakref import WeakKeyDictionary

from tuner.cpus import is_bound
from tuner.process_knobs import (
    CPU_BINDING,
    EQUAL,
    INTRA_OP_THREADS,
    SWITCH_INTERVAL,
    UNBOUND,
    ProcessKnobs,
    has_gil,
    intra_op_threads_now,
    number_in,
    place_on_host,
    switch_interval_s,
)
from tuner.roles import role_of
from tuner.torch_private.call_outcomes import CallOutcomes
from tuner.torch_private.exceptions import (
    MOST_TEXT,
    error_text,
    sound,
    unseen_in_tracebacks,
    without_our_frames,
)

# Not from `calls`, which imports torch: this module is loaded in the middle of `import torch`.
from tuner.torch_private.private_names import PRIVATE_KEYWORDS, SENDERS, Sender
from tuner.torch_private.program_wrappers import Distributed, RaisedErrors, no_listener


class ProgramHooks:
    """Gives every agent of this process the order's options, and reports what it does.

    Args:
        rpc: The module `torch.distributed.rpc`.
        order: What `tuner.world.command.order` writes.
        report: Gets the messages of every agent, with facts that JSON can hold.
        new_recorder: Makes the `ProgramRecorder` of an agent, by its name and rank, before it
            starts: only by then is torch imported. None: nothing is recorded.
        new_prober: Makes the `Prober` of this process, from a function that gives its state.
    """

    def __init__(
        self,
        rpc: Any,
        order: Mapping[str, Any],
        report: Callable[..., None],
        new_recorder: Callable[[str, int], Any] | None = None,
        new_prober: Callable[[Callable[[], Mapping[str, object]]], Any] | None = None,
    ) -> None:
        self._rpc = rpc
        self._order = order
        self._report = report
        self._new_recorder = new_recorder
        self._new_prober = new_prober
        self._recorder: Any = None
        self._prober: Any = None
        self._name = ""
        self._made: dict[int, int] = {}
        """How many calls each thread has made, by its identity. No other one writes its number, so
        that none is lost without a GIL either."""
        self._made_before = 0
        """By all, before this agent was started."""
        self._outcomes = CallOutcomes()
        self._busy_in: int | None = None
        """The thread in which RPC itself calls others, to start and to shut down."""
        self._fixed = {
            name: values[name]
            for name in PRIVATE_KEYWORDS
            for values in order["options"].values()
            if name in values
        }
        """The order's private options, which are those of all roles."""
        self._given: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
        """The private keywords of options that the program has made."""
        self._process_knobs = ProcessKnobs()
        self._raised = RaisedErrors(report, lambda: self._name)

    def install(self) -> None:
        """Replace what every way of importing the API ends in."""
        rpc = self._rpc
        self._hook_options(rpc.TensorPipeRpcBackendOptions)
        # `init_rpc` looks it up each time, however the program imported `init_rpc`.
        rpc.dist = Distributed(rpc.dist, self._meeting)
        rpc._init_rpc_backend = self._initialising(rpc._init_rpc_backend)
        self._hook_shutdown(rpc)
        for name, how in SENDERS.items():
            setattr(rpc.api, name, self._counting(getattr(rpc.api, name), how))
        self._outcomes.install(rpc)
        # `_run_function` prints what a served call raises, and calls it for nothing else.
        rpc.internal.print = self._raised.reporting(_print, "a call that {name} served")
        threading.excepthook = self._raised.reporting(threading.excepthook, "a thread of {name}")

    def _hook_shutdown(self, rpc: Any) -> None:
        """Within what PyTorch has wrapped it in: a library that was imported before has that."""
        shutdown = rpc.api.shutdown
        inner: Any = getattr(shutdown, "__wrapped__", None)
        cells = [cell for cell in shutdown.__closure__ or () if cell.cell_contents is inner]
        if cells:
            cells[0].cell_contents = self._shutting_down(inner)
        else:
            rpc.shutdown = rpc.api.shutdown = self._shutting_down(shutdown)

    def _hook_options(self, options_class: Any) -> None:
        """In place: programs import the class by name."""
        plain = options_class.__init__
        fixed = {PRIVATE_KEYWORDS[name]: value for name, value in self._fixed.items()}

        @unseen_in_tracebacks
        @functools.wraps(plain)
        def init(options: Any, *args: Any, **given: Any) -> None:
            given |= fixed
            plain(options, *args, **given)
            self._given[options] = {key: given.get(key) for key in PRIVATE_KEYWORDS.values()}

        options_class.__init__ = init

    @contextmanager
    def _meeting(self, url: str, rank: int, world_size: int) -> Iterator[None]:
        """The process waits for the others here, and perhaps none comes."""
        if self._is_running:
            yield  # PyTorch refuses to start a second agent
            return
        rank = number_in("RANK", rank) if rank < 0 else rank
        size = number_in("WORLD_SIZE", world_size) if world_size < 0 else world_size
        facts = {"url": url, "rank": rank, "world_size": None if size < 0 else size}
        self._report("rendezvous", **facts, no_listener=no_listener(url))
        self._answer_as(f"rank{rank}", rank)
        with self._reporting_failure(f"rank {rank}", rank):
            yield

    def _answer_as(self, name: str, rank: int) -> None:
        with self._reporting_own_failure():
            if self._new_prober is not None:
                self._prober = self._prober or self._new_prober(self._standing)
                self._prober.begin(name, rank)

    @contextmanager
    def _reporting_own_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # the program comes first
            self._report("hook-failed", error=repr(error))

    def _initialising(self, init_backend: Callable[..., None]) -> Callable[..., None]:
        @unseen_in_tracebacks
        @functools.wraps(init_backend)
        def init(
            backend: Any, store: Any, name: str, rank: int, world_size: int | None, options: Any
        ) -> None:
            if self._is_running:
                init_backend(backend, store, name, rank, world_size, options)
                return
            role = role_of(name, self._order["roles"])
            backend_name = getattr(backend, "name", str(backend))
            if backend_name == "TENSORPIPE":
                self._apply(role, options, rank, world_size)
            facts = {"name": name, "rank": rank, "world_size": world_size, "role": role}
            self._report(
                "init_rpc",
                **facts,
                backend=backend_name,
                **self._options(options),
                cuda_devices=_torch().cuda.device_count(),
                local_size=number_in("LOCAL_WORLD_SIZE", 0),
                has_gil=has_gil(),
            )
            if backend_name == "TENSORPIPE":
                self._answer_as(name, rank)
                with self._reporting_own_failure():
                    if self._new_recorder is not None:
                        self._recorder = self._new_recorder(name, rank)
            self._outcomes.begin()
            # A rank may serve, and call others, before its own init_rpc is done.
            self._name, self._made_before, self._busy_in = name, self._count(), get_ident()
            try:
                with self._reporting_failure(name, rank):
                    init_backend(backend, store, name, rank, world_size, options)
            except BaseException:
                self._end_recorder("init-failed")
                raise
            finally:
                self._busy_in = None
            self._report("ready", **facts, **_usage())
            if self._recorder is not None:
                with self._reporting_own_failure():
                    self._recorder.start()
            if self._order["say"]:
                self._say(name, options)

        return init

    @contextmanager
    def _reporting_failure(self, name: str, rank: int) -> Iterator[None]:
        """Report why `init_rpc` fails: the ranks that wait for this one fail for that alone."""
        try:
            yield
        except Exception as error:
            text, shown = error_text(error), sound(traceback.format_exc())[-MOST_TEXT:]
            self._report("init-failed", name=name, rank=rank, error=text, traceback=shown)
            raise

    def _end_recorder(self, reason: str) -> None:
        if self._recorder is not None:
            with self._reporting_own_failure():
                self._recorder.end(reason)
        self._recorder = None

    @property
    def _is_running(self) -> bool:
        """Whether this process has an agent."""
        return bool(self._rpc.api._is_current_rpc_agent_set())

    def _count(self) -> int:
        """The calls of this process, of all its agents."""
        return sum(self._made.copy().values())

    def _standing(self) -> dict[str, object]:
        return {
            "calls": self._count(),
            **self._knobs_now(),
            **self.outcomes(),
            **_usage(),
        }

    def _knobs_now(self) -> dict[str, object]:
        """What the program may have set otherwise since its `init_rpc`."""
        return {
            "overridden": self._process_knobs.overridden(),
            INTRA_OP_THREADS: intra_op_threads_now(),
        }

    def outcomes(self) -> dict[str, object]:
        """The calls of this agent by function, and how many of them failed."""
        return self._outcomes.facts(self._under_way)

    def _under_way(self) -> int:
        """The calls of this agent that have not ended; all there may be if it does not tell."""
        if not self._is_running:
            return 0
        gauges = self._rpc.api._get_current_rpc_agent().get_debug_info()
        return int(gauges.get("agent.client_active_calls", sys.maxsize))

    def _apply(self, role: str, options: Any, rank: int, world_size: int | None) -> None:
        """Set what the role gets, also for every thread that is there by now."""
        by_role = self._order["options"]
        values = {**by_role.get("*", {}), **by_role.get(role, {})}
        # The program may have set them otherwise after the constructor.
        for name in ("num_worker_threads", "rpc_timeout"):
            if name in values:
                setattr(options, name, values[name])
        for callee, devices in (values.get("device_maps") or {}).items():
            options.set_device_map(callee, devices)
        if values.get("devices"):
            options.set_devices(values["devices"])
        by_role = self._order["process"]
        values = {**by_role.get("*", {}), **by_role.get(role, {})}
        ranks = world_size or self._order["ranks"]
        index, here = (0, None) if ranks is None else place_on_host(rank, ranks, os.environ)
        try:
            self._process_knobs.apply(values, index, here)
        except OSError as error:
            self._report("hook-failed", error=f"{CPU_BINDING}: {error}")

    def _options(self, options: Any) -> dict[str, object]:
        """What an agent is started with, by knob, as JSON."""
        given = self._given.get(options, {})
        return {
            "num_worker_threads": getattr(options, "num_worker_threads", None),
            "rpc_timeout": options.rpc_timeout,
            **{name: given.get(keyword) for name, keyword in PRIVATE_KEYWORDS.items()},
            INTRA_OP_THREADS: _torch().get_num_threads(),
            SWITCH_INTERVAL: switch_interval_s(),
            CPU_BINDING: EQUAL if is_bound() else UNBOUND,
        }

    def _say(self, name: str, options: Any) -> None:
        parts = [
            f"num_worker_threads={options.num_worker_threads}",
            *(f"{key}={'+'.join(value)}" for key, value in self._fixed.items() if value),
            *self._process_knobs.texts,
        ]
        # One write: lines of several ranks must not mix.
        sys.stderr.write(f"rpc-tuner: {name} has {' '.join(parts)}\n")
        sys.stderr.flush()

    def _shutting_down(self, shutdown: Callable[..., None]) -> Callable[..., None]:
        @unseen_in_tracebacks
        @functools.wraps(shutdown)
        def shut_down(*args: Any, **kwargs: Any) -> None:
            if not self._is_running:
                shutdown(*args, **kwargs)  # PyTorch refuses it
                return
            calls, outcomes = self._count() - self._made_before, self.outcomes()
            self._report(
                "shutdown", name=self._name, calls=calls, **self._knobs_now(), **outcomes,
                **_usage(),
            )  # fmt: skip
            self._busy_in = get_ident()
            try:
                shutdown(*args, **kwargs)
                # Until its peers shut down too, a rank serves, and what it serves may call others.
                calls = self._count() - self._made_before
                if [*args, kwargs.get("graceful", True)][0]:  # else calls may be broken off
                    outcomes = self.outcomes()
                self._report("ended", name=self._name, calls=calls, **outcomes, **_usage())
            finally:
                self._busy_in = None
                if not self._is_running:  # PyTorch ends the agent also where it raises
                    self._end_recorder("shutdown")

        return shut_down

    def _counting(self, send: Callable[..., Any], how: Sender) -> Callable[..., Any]:
        made = self._made

        def send_and_count(*args: Any, **kwargs: Any) -> Any:
            is_own = (thread := get_ident()) == self._busy_in
            if not is_own:
                try:
                    made[thread] += 1
                except KeyError:
                    made[thread] = 1
            self._outcomes.issued(how, args[1], is_own=is_own)
            try:
                return send(*args, **kwargs)
            except BaseException as error:
                without_our_frames(error)
                raise

        self._outcomes.sender = send_and_count.__code__
        return functools.wraps(send)(send_and_count)


def _print(*args: Any, **kwargs: Any) -> None:
    """`print` as PyTorch finds it: the program may put another one in its place."""
    builtins.print(*args, **kwargs)  # noqa: T201


def _torch() -> Any:
    # Late: this module is loaded in the middle of `import torch`.
    import torch

    return torch


def _usage() -> dict[str, float]:
    """CPU seconds, peak resident memory in MB, and threads of this process so far."""
    return {
        "cpu_s": time.process_time(),
        "threads": len(os.listdir("/proc/self/task")),  # noqa: PTH208 - pathlib takes a while
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
