"""The local launcher: worlds of forkserver processes on this machine."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from tuner.errors import LauncherError, UsageError
from tuner.plan.draft import PlanDraft
from tuner.plan.knobs import INTRA_OP_THREADS
from tuner.plan.workload_spec import CatalogueEntry, WorkloadSpec
from tuner.world.launcher import WorldOrder
from tuner.world.local.live_world import EXIT_S, LiveRank, LiveWorld
from tuner.world.local.processes import Processes, end_process
from tuner.world.machine_reading import MachineReader, machine_between
from tuner.world.measurement import Failure, Measurement
from tuner.world.rank.entry import start_describing, start_listing, start_rank
from tuner.world.rank.task import RankTask

# Enough to import torch, and what the workload's module needs, from a cold disk.
DESCRIBE_DEADLINE_S = 120.0


class _NoAnswer(Exception):  # noqa: N818 - never leaves this module
    """A process that imports workloads gave no answer."""

    def __init__(self, exit_code: int | None = None) -> None:
        self.exit_code = exit_code
        """None if the process was ended at its deadline."""

    def told_of(self, workloads: str) -> str:
        what = (
            f"importing and describing {workloads} took longer than {DESCRIBE_DEADLINE_S:g} s and "
            "was ended"
            if self.exit_code is None
            else f"the process that imports {workloads} ended without an answer "
            f"(exit code {self.exit_code})"
        )
        return f"{what}; what it printed stands above"


class LocalLauncher:
    """Starts each rank from a forkserver that has torch imported already."""

    def __init__(self) -> None:
        self._processes = Processes()
        self._machine = MachineReader()
        self._scratch: Path | None = None

    def __enter__(self) -> Self:
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

    def subject_of(self, draft: PlanDraft, failure_folder: Path | None = None) -> WorkloadSpec:
        """See `Launcher.subject_of`."""
        if draft.program is not None:
            raise LauncherError("this launcher runs workloads, and the plan has a program")
        return self.describe(draft.workload, draft.options)

    def describe(self, reference: str, options: Mapping[str, object]) -> WorkloadSpec:
        """See `WorkloadLauncher.describe`."""
        try:
            document = self._ask(start_describing, reference, dict(options))
        except _NoAnswer as problem:
            raise UsageError(f"workload {reference}: {problem.told_of('it')}") from None
        if "spec" in document:
            return WorkloadSpec.model_validate(document["spec"])
        if "problems" in document:
            raise UsageError.about(f"workload {reference}", document["problems"])
        raise LauncherError("; ".join(document["unsupported"]))

    def catalogue(self) -> list[CatalogueEntry]:
        """The shipped workloads, as a process that imported them says."""
        try:
            entries = self._ask(start_listing)
        except _NoAnswer as problem:
            raise LauncherError(problem.told_of("the shipped workloads")) from None
        return [CatalogueEntry.model_validate(entry) for entry in entries]

    def _ask(self, target: Callable[..., None], *arguments: object) -> Any:
        """What a process of its own answers, as JSON. Raises _NoAnswer if it gives none."""
        ours, theirs = self._processes.context.Pipe(duplex=False)
        process = self._processes.start(target, (Path.cwd(), *arguments, theirs))
        theirs.close()
        is_late = False
        try:
            is_late = not ours.poll(DESCRIBE_DEADLINE_S)
            if not is_late:
                return orjson.loads(ours.recv_bytes())
        except EOFError:
            process.join(EXIT_S)  # it is ending by itself, with an exit code of its own
        finally:
            ours.close()
            end_process(process)
        raise _NoAnswer(None if is_late else process.exitcode)

    def run(self, order: WorldOrder) -> Measurement | Failure:
        """See `Launcher.run`."""
        before = self._machine.read()
        outcome = self._run(order)
        machine = machine_between(before, self._machine.read())
        return outcome.model_copy(update={"machine": machine})

    def _run(self, order: WorldOrder) -> Measurement | Failure:
        if self._scratch is None:
            raise LauncherError("the launcher is used outside its with block")
        scratch = Path(tempfile.mkdtemp(dir=self._scratch, prefix="world-"))
        started = time.monotonic()
        ranks: list[LiveRank] = []
        world = LiveWorld(ranks, order, scratch, started)
        try:
            for task in rank_tasks(order, scratch):
                ours, theirs = self._processes.context.Pipe()
                process = self._processes.start(start_rank, (task, theirs))
                theirs.close()
                ranks.append(LiveRank(task.name, process, ours))
            return world.run()
        finally:
            world.end_everything()
            shutil.rmtree(scratch, ignore_errors=True)


def rank_tasks(order: WorldOrder, scratch: Path) -> Iterator[RankTask]:
    """The task of each rank of the world, in rank order."""
    spec, folder = order.subject, Path.cwd()
    assert isinstance(spec, WorkloadSpec), "subject_of took no program"
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
            folder=folder,
            scratch=scratch,
        )
