"""Hooks `torch.distributed.rpc` of a program that knows nothing of it: options, and what happens.

Runs in the program's own processes, with torch and the standard library alone.
"""

import functools
import resource
import sys
import time
from collections.abc import Callable, Mapping
from threading import get_ident
from types import ModuleType
from typing import Any, Protocol

from tuner.roles import role_of

# Not from `calls`, which imports torch: this module is loaded in the middle of `import torch`.
from tuner.torch_private.option_names import PRIVATE_KEYWORDS
from tuner.torch_private.senders import SENDERS


class Reports(Protocol):
    """Where the hook tells what happens."""

    def send(self, event: str, **facts: object) -> None:
        """Tell of an event, with facts that JSON can hold."""


class Recorder(Protocol):
    """Records the calls of one agent."""

    def prepare(self, name: str, rank: int) -> None:
        """The agent is about to start; RuntimeError if it cannot be recorded."""

    def start(self) -> None:
        """The agent has started."""

    def end(self, reason: str) -> None:
        """The agent was shut down."""


def hook_rpc(
    rpc: ModuleType,
    order: Mapping[str, Any],
    reports: Reports,
    new_recorder: Callable[[], Recorder] | None = None,
) -> None:
    """Give every agent of this process the order's options, and report what it does.

    Args:
        rpc: The module `torch.distributed.rpc`.
        order: What `tuner.world.command.order` writes: `options` by role, `intra_op_threads` by
            role, `roles` as pairs of a role and a pattern, `say`.
        reports: Told of `init_rpc`, `ready`, `shutdown`, `ended`, each once for every agent.
        new_recorder: Makes what records an agent; None to record nothing. It is called in
            `init_rpc`, since only by then is torch imported.
    """
    _Hooks(rpc, order, reports, new_recorder).install()


class _Hooks:
    def __init__(
        self,
        rpc: Any,
        order: Mapping[str, Any],
        reports: Reports,
        new_recorder: Callable[[], Recorder] | None,
    ) -> None:
        self._rpc = rpc
        self._order = order
        self._reports = reports
        self._new_recorder = new_recorder
        self._recorder: Recorder | None = None
        self._name = ""
        self._calls = 0
        self._shutting_down_in: int | None = None

    def install(self) -> None:
        """Replace what every way of importing the API ends in."""
        rpc = self._rpc
        self._hook_options(rpc.TensorPipeRpcBackendOptions)
        # `init_rpc` looks it up each time, however the program imported `init_rpc`.
        rpc._init_rpc_backend = self._initialising(rpc._init_rpc_backend)
        rpc.shutdown = rpc.api.shutdown = self._shutting_down(rpc.api.shutdown)
        for name in SENDERS:
            setattr(rpc.api, name, self._counting(getattr(rpc.api, name)))

    def _hook_options(self, options_class: Any) -> None:
        """In place: programs import the class by name."""
        plain = options_class.__init__
        fixed = {
            keyword: values[name]
            for values in self._order["options"].values()
            for name, keyword in PRIVATE_KEYWORDS.items()
            if name in values
        }

        @functools.wraps(plain)
        def init(options: Any, *args: Any, **given: Any) -> None:
            plain(options, *args, **{**given, **fixed})

        options_class.__init__ = init

    def _initialising(self, init_backend: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(init_backend)
        def init(
            backend: Any, store: Any, name: str, rank: int, world_size: int | None, options: Any
        ) -> None:
            role = role_of(name, self._order["roles"])
            backend_name = getattr(backend, "name", str(backend))
            applied = self._apply(role, options) if backend_name == "TENSORPIPE" else {}
            facts = {"name": name, "rank": rank, "world_size": world_size, "role": role}
            self._reports.send(
                "init_rpc",
                **facts,
                backend=backend_name,
                applied=applied,
                num_worker_threads=getattr(options, "num_worker_threads", None),
                rpc_timeout=options.rpc_timeout,
            )
            if backend_name == "TENSORPIPE":
                self._prepare_recorder(name, rank)
            init_backend(backend, store, name, rank, world_size, options)
            self._name, self._calls, self._shutting_down_in = name, 0, None
            self._reports.send("ready", **facts, **_usage())
            self._recording(lambda recorder: recorder.start())
            if self._order["say"]:
                self._say(name, options)

        return init

    def _prepare_recorder(self, name: str, rank: int) -> None:
        self._recorder = None
        if self._new_recorder is not None:
            try:
                recorder = self._new_recorder()
                recorder.prepare(name, rank)
                self._recorder = recorder
            except Exception as error:  # the program comes first
                self._reports.send("hook-failed", error=repr(error))

    def _recording(self, action: Callable[[Recorder], None]) -> None:
        if self._recorder is not None:
            try:
                action(self._recorder)
            except Exception as error:  # the program comes first
                self._reports.send("hook-failed", error=repr(error))

    def _apply(self, role: str, options: Any) -> dict[str, object]:
        """Set what the role gets; the program may have set it otherwise after the constructor."""
        values = {
            **self._order["options"].get("*", {}),
            **self._order["options"].get(role, {}),
        }
        for name in ("num_worker_threads", "rpc_timeout"):
            if name in values:
                setattr(options, name, values[name])
        for callee, devices in (values.get("device_maps") or {}).items():
            options.set_device_map(callee, devices)
        if values.get("devices"):
            options.set_devices(values["devices"])
        threads = self._order["intra_op_threads"]
        if (count := threads.get(role, threads.get("*"))) is not None:
            import torch

            torch.set_num_threads(count)
            values["intra_op_threads"] = count
        return values

    def _say(self, name: str, options: Any) -> None:
        parts = [f"num_worker_threads={options.num_worker_threads}"]
        shared = self._order["options"]
        for option in PRIVATE_KEYWORDS:
            given = next((values[option] for values in shared.values() if option in values), None)
            if given is not None:
                parts.append(f"{option}={'+'.join(given)}")
        # One write: lines of several ranks must not mix.
        sys.stderr.write(f"rpc-tuner: {name} has {' '.join(parts)}\n")
        sys.stderr.flush()

    def _shutting_down(self, shutdown: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(shutdown)
        def shut_down(*args: Any, **kwargs: Any) -> None:
            self._reports.send("shutdown", name=self._name, calls=self._calls, **_usage())
            self._shutting_down_in = get_ident()
            shutdown(*args, **kwargs)
            # Until its peers shut down too, a rank serves, and what it serves may call others.
            self._reports.send("ended", name=self._name, calls=self._calls, **_usage())
            self._recording(lambda recorder: recorder.end("shutdown"))
            self._recorder = None

        return shut_down

    def _counting(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def send_and_count(*args: Any, **kwargs: Any) -> Any:
            if get_ident() != self._shutting_down_in:  # else RPC calls others for itself
                self._calls += 1
            return send(*args, **kwargs)

        return send_and_count


def _usage() -> dict[str, float]:
    """CPU seconds and peak resident memory of this process so far."""
    return {
        "cpu_s": time.process_time(),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
