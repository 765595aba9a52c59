"""The local launcher: worlds of forkserver processes on this machine."""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any, Self

from tuner.cpus import named
from tuner.errors import LauncherError, UsageError
from tuner.files import note_beside, own_prefix, sweep
from tuner.plan.config import knobs_meant
from tuner.plan.draft import PlanDraft
from tuner.plan.workload_spec import WorkloadSpec
from tuner.world.environment import Environment, GroupFacts, MachineReader
from tuner.world.launcher import WorldOrder, rank_tasks
from tuner.world.live_world import EXIT_S, RankWorld
from tuner.world.local.processes import LocalRankProcesses, end_process, exit_code, start_process
from tuner.world.measurement import Failure, Measurement
from tuner.world.own_network import OwnNetwork
from tuner.world.postmortem import ending, was_killed
from tuner.world.rank.entry import start_describing
from tuner.world.socket_channel import SocketChannel

_NEEDS_A_NETWORK = re.compile(
    "Network is unreachable|Name or service not known|Temporary failure in name resolution"
)
# Enough to import torch, and what the workload's module needs, from a cold disk.
DESCRIBE_DEADLINE_S = 120.0
ASKED = 2
# A Unix socket's path has 107 bytes at most; multiprocessing's go below the temporary folder.
_LONGEST_FOLDER = 107 - len("/pymp-12345678/listener-12345678")


class LocalLauncher:
    """Starts each rank from a forkserver that has torch imported already. Its worlds are kept to
    these logical CPUs, beside worlds on others; None: all. With `isolation` they run in a network
    namespace of the launcher's own, where the system allows one: RPC has no authentication, and any
    user of the machine reaches its loopback."""

    def __init__(self, cpus: Collection[int] | None = None, *, isolation: bool = True) -> None:
        self._cpus = cpus
        self._isolation = isolation
        self._network: OwnNetwork | None = None
        self._machine = MachineReader(is_shared=cpus is not None)
        self._scratch: Path | None = None
        self._ranks: LocalRankProcesses | None = None

    def __enter__(self) -> Self:
        folder = tempfile.gettempdir()
        if (length := len(os.fsencode(folder))) > _LONGEST_FOLDER:
            raise UsageError(
                f"the folder for temporary files has a path of {length} bytes ({folder}), and a "
                f"socket fits below one of {_LONGEST_FOLDER} at most: set TMPDIR to a shorter one"
            )
        sweep()
        self._scratch = Path(tempfile.mkdtemp(prefix=own_prefix()))
        note_beside(self._scratch, Path(get_temp_dir()))
        return self

    def __exit__(self, *ending: object) -> None:
        if self._network is not None:
            self._network.leave()
            self._network = None
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None

    @property
    def own_network(self) -> bool:
        """See `Launcher.own_network`."""
        return bool(self._network_places())

    def _network_places(self) -> tuple[str, ...]:
        """The places of the worlds' network; empty where they have the machine's."""
        if self._isolation and self._network is None:
            # Late: describing a workload takes none.
            self._network = OwnNetwork().__enter__()
        return () if self._network is None else self._network.places

    def subject_of(self, draft: PlanDraft) -> WorkloadSpec:
        """See `Launcher.subject_of`."""
        if draft.program is not None:
            raise LauncherError("this launcher runs workloads, and the plan has a program")
        longest_s = min(DESCRIBE_DEADLINE_S, draft.measuring.longest_start_s)
        return self.describe(draft.workload, draft.options, longest_s)

    def describe(
        self, reference: str, options: Mapping[str, object], longest_s: float = DESCRIBE_DEADLINE_S
    ) -> WorkloadSpec:
        """See `WorkloadLauncher.describe`; within so many seconds."""
        document = self._asked(reference, options, longest_s)
        if isinstance(document, str):
            raise UsageError(f"workload {reference}: {document}; what it printed stands above")
        if "unsupported" in document:
            raise LauncherError("; ".join(document["unsupported"]))
        if "problems" in document:
            problems = knobs_meant(document["problems"], options)
            raise UsageError.about(f"workload {reference}", problems)
        return WorkloadSpec.model_validate(document["spec"])

    def _asked(self, reference: str, options: Mapping[str, object], longest_s: float) -> Any:
        """What a process of its own says of a workload; a text says why it gave no answer."""
        until = time.monotonic() + longest_s
        for _ in range(ASKED):
            channel, theirs = SocketChannel.pair()
            with theirs:
                given = (Path.cwd(), theirs, reference, dict(options))
                process = start_process(self._cpus, start_describing, *given)
            try:
                return channel.awaited(until - time.monotonic())
            except TimeoutError:
                return f"importing and describing it took longer than {longest_s:g} s and was ended"
            except EOFError:
                exit_code(process, EXIT_S)  # it is ending by itself, with a code of its own
            finally:
                channel.close()
                end_process(process)
            code = exit_code(process)
            if code is None:
                return "the process that imports it gave no answer, and cannot be killed"
            why = f"the process that imports it ended without an answer ({ending(code)})"
            # Somebody may have killed it, or the forkserver with it: it is asked once more.
            if not was_killed(code):
                break
        return why

    def stop(self) -> None:
        """See `tuner.world.launcher.Stoppable`."""
        if (ranks := self._ranks) is not None:
            ranks.kill()

    def facts(self) -> GroupFacts:
        """See `tuner.world.launcher.Fingerprinted`."""
        cpus, here = tuple(self._cpus or os.sched_getaffinity(0)), [Environment.here()]
        is_pinned = self._cpus is not None
        return GroupFacts.of(f"CPUs {named(cpus)}", here, cpu_count=len(cpus), pinned=is_pinned)

    def run(self, order: WorldOrder) -> Measurement | Failure:
        """See `Launcher.run`."""
        if self._scratch is None:
            raise LauncherError("the launcher is used outside its with block")
        with tempfile.TemporaryDirectory(
            dir=self._scratch, prefix="world-", ignore_cleanup_errors=True
        ) as scratch:
            folder = Path(scratch)
            self._ranks = LocalRankProcesses(self._cpus, folder, self._machine)
            network = self._network_places()
            tasks = [replace(task, network=network) for task in rank_tasks(order, folder)]
            try:
                outcome = RankWorld(self._ranks, order, tasks).run()
            finally:
                self._ranks = None
        if not network or not isinstance(outcome, Failure):
            return outcome
        if not _NEEDS_A_NETWORK.search(f"{outcome.message} {outcome.detail}"):
            return outcome
        hint = "worlds have a network of their own: --no-isolation gives them the machine's"
        return outcome.model_copy(update={"message": f"{outcome.message}; {hint}"})
