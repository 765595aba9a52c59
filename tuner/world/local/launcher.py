"""The local launcher: worlds of forkserver processes on this machine."""

import multiprocessing
import shutil
import sys
import tempfile
import time
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from tuner.errors import LauncherError, UsageError
from tuner.plan.knobs import INTRA_OP_THREADS
from tuner.plan.workload_spec import CatalogueEntry, WorkloadSpec
from tuner.world.launcher import WorldOrder
from tuner.world.local.live_world import LiveRank, LiveWorld, end_process
from tuner.world.measurement import Failure, Measurement
from tuner.world.rank.entry import PRELOADED, start_describing, start_listing, start_rank
from tuner.world.rank.task import RankTask

# Importing torch, and then whatever the person's module imports, on a cold disk.
DESCRIBE_DEADLINE_S = 120.0


class LocalLauncher:
    """Starts each rank from a forkserver that has torch imported already."""

    def __init__(self) -> None:
        self._context: ForkServerContext = multiprocessing.get_context("forkserver")
        self._scratch: Path | None = None

    def __enter__(self) -> Self:
        self._context.set_forkserver_preload([PRELOADED])
        self._scratch = Path(tempfile.mkdtemp(prefix="rpc-tuner-"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None

    def describe(self, reference: str, options: Mapping[str, object]) -> WorkloadSpec:
        """See `Launcher.describe`."""
        document, exit_code = self._ask(start_describing, reference, dict(options))
        if document is None:
            raise UsageError(
                f"workload {reference}: the process that imports it ended without an answer "
                f"(exit code {exit_code}); what it printed stands above"
            )
        if "spec" in document:
            return WorkloadSpec.model_validate(document["spec"])
        if "problems" in document:
            raise UsageError.about(f"workload {reference}", document["problems"])
        raise LauncherError("; ".join(document["unsupported"]))

    def catalogue(self) -> list[CatalogueEntry]:
        """The shipped workloads, as a process that imported them says."""
        entries, exit_code = self._ask(start_listing)
        if entries is None:
            raise LauncherError(
                f"the process that imports the workloads ended without an answer "
                f"(exit code {exit_code}); what it printed stands above"
            )
        return [CatalogueEntry.model_validate(entry) for entry in entries]

    def _ask(self, target: Any, *arguments: object) -> tuple[Any, int | None]:
        """What a process of its own answers, as JSON; None, and its exit code, if it does not."""
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._start(target, (*arguments, theirs))
        theirs.close()
        answer = None
        try:
            if ours.poll(DESCRIBE_DEADLINE_S):
                answer = orjson.loads(ours.recv_bytes())
        except EOFError:
            pass
        finally:
            ours.close()
            end_process(process)
        return answer, process.exitcode

    def run(self, order: WorldOrder) -> Measurement | Failure:
        """See `Launcher.run`."""
        if self._scratch is None:
            raise LauncherError("the launcher is used outside its with block")
        scratch = Path(tempfile.mkdtemp(dir=self._scratch, prefix="world-"))
        started = time.monotonic()
        ranks: list[LiveRank] = []
        world = LiveWorld(ranks, order, scratch, started)
        try:
            for task in rank_tasks(order, scratch):
                ours, theirs = self._context.Pipe()
                process = self._start(start_rank, (task, theirs))
                theirs.close()
                ranks.append(LiveRank(task.name, process, ours))
            return world.run()
        finally:
            world.end_everything()
            shutil.rmtree(scratch, ignore_errors=True)

    def _start(self, target: Any, arguments: tuple[object, ...]) -> ForkServerProcess:
        process = self._context.Process(target=target, args=arguments, daemon=True)
        try:
            with _without_main_module():
                process.start()
        except (OSError, EOFError) as error:
            raise LauncherError(f"cannot start a process: {error or 'no forkserver'}") from error
        return process


def rank_tasks(order: WorldOrder, scratch: Path) -> Iterator[RankTask]:
    """The task of each rank of the world, in rank order."""
    spec = order.workload
    for rank, rank_spec in enumerate(spec.ranks):
        values = order.config.for_role(rank_spec.role)
        intra_op_threads = values.get(INTRA_OP_THREADS.name, spec.intra_op_threads)
        assert isinstance(intra_op_threads, int)
        yield RankTask(
            rank=rank,
            ranks=tuple((each.name, each.role) for each in spec.ranks),
            reference=spec.reference,
            options=spec.options,
            values=values,
            intra_op_threads=intra_op_threads,
            seed=order.seed,
            steps=order.steps,
            min_time_s=order.min_time_s,
            trace=order.trace,
            scratch=scratch,
        )


@contextmanager
def _without_main_module() -> Iterator[None]:
    """Hide `__main__` from multiprocessing, which would run it again in every new process.

    A rank needs nothing of it, a command line would cost it time, and a person's script that
    has no `if __name__ == "__main__"` would start a search in each rank.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
