"""What the first runs of a program show: its ranks, its own options, whether its calls vary."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from tuner.errors import UsageError
from tuner.plan.knobs import KNOBS
from tuner.plan.program_spec import ProgramRequest, ProgramSpec
from tuner.plan.workload_spec import RankSpec
from tuner.world.command.judging import calls_of
from tuner.world.command.process_reports import RankReport
from tuner.world.command.program_world import ProgramEnd
from tuner.world.command.running import why_no_command
from tuner.world.measurement import Failure, Measurement

_IN_ANY_NETWORK = re.compile(
    r"\b(ModuleNotFound|Import|Syntax|Indentation|Tab)Error: "
    r"|: error: (the following arguments are required|unrecognized arguments)"
    r"|: can't open file "
)
"""In the last line of what fails in every network: code that cannot be read, missing arguments."""


@dataclass(frozen=True)
class TriedRun:
    """A run of a program as it is: how it ended, and what came of it."""

    end: ProgramEnd
    outcome: Measurement | Failure

    @property
    def failure(self) -> Failure | None:
        """Why it is no measurement; None if it is one."""
        return self.outcome if isinstance(self.outcome, Failure) else None

    @property
    def may_need_a_network(self) -> bool:
        """Whether it failed as it may where no other machine is to be reached.

        That is not by waiting, and not by an error that Python finds in what it reads.
        """
        kinds = ("init-failed", "crashed", "wrong-answer")
        if self.failure is None or self.failure.failure not in kinds:
            return False
        last = self.failure.detail.rstrip().rpartition("\n")[2]
        return not _IN_ANY_NETWORK.search(last)

    @property
    def may_go_well_otherwise(self) -> bool:
        """Whether it failed with all ranks known, and perhaps because of its own options."""
        kinds = ("deadlocked", "crashed")
        is_theirs = self.failure is not None and self.failure.failure in kinds
        return is_theirs and self.end.report.is_ready

    def difference(self, first: Self) -> str:
        """What a warm run did otherwise than the first, cold one, as a clause; empty if nothing."""
        ranks, theirs = (
            [(rank.rank, rank.name) for rank in run.end.report.ranks] for run in (self, first)
        )
        kind, expected = (run.failure and run.failure.failure for run in (self, first))
        if self.failure is not None and kind != expected:
            return f"started warm, the program fails: {self.failure.message}"
        if kind != expected:
            return "started warm, the program does not fail"
        return "" if ranks == theirs else "started warm, the program has other ranks"


def check_commands(request: ProgramRequest) -> None:
    """UsageError unless every command can be started."""
    problems = list(filter(None, (why_no_command(command[0]) for command in request.commands)))
    if problems:
        raise UsageError.about("the program", problems)


def check_backend(end: ProgramEnd) -> None:
    """UsageError if a rank has another agent than TensorPipe's."""
    others = [rank for rank in end.report.ranks if rank.backend != "TENSORPIPE"]
    if others:
        raise UsageError(
            f"the program's rank {others[0].name} uses the RPC backend {others[0].backend}: only "
            "TensorPipe has options to tune"
        )


def program_spec(
    request: ProgramRequest, runs: Sequence[TriedRun], *, own_network: bool, starts: str
) -> ProgramSpec:
    """The program as runs of it showed it.

    Args:
        request: How it was run.
        runs: Runs of it as it is. Of those that failed, its calls are not known, nor whether it
            shuts down, which is assumed.
        own_network: Whether they had a network of their own.
        starts: How later ones start.
    """
    ranks = runs[0].end.report.latest
    ends = [run.end for run in runs if run.failure is None]
    return ProgramSpec(
        **request.model_dump(),
        ranks=tuple(RankSpec(name=rank.name, role=rank.role) for rank in ranks),
        own=_own_options(ranks),
        calls=tuple(calls_of(end) for end in ends),
        run_s=tuple(end.run_s for end in ends),
        shuts_down=all(end.report.rpc_active_s is not None for end in ends),
        own_network=own_network,
        has_world_size=runs[0].end.report.has_world_size,
        starts=starts,
        cuda_devices=max(rank.cuda_devices for rank in ranks),
    )


def _own_options(ranks: Sequence[RankReport]) -> dict[str, dict[str, Any]]:
    """By role: those of its first rank."""
    found: dict[str, dict[str, Any]] = {}
    for rank in ranks:
        found.setdefault(rank.role, {k: v for k, v in rank.options.items() if _is_known(k, v)})
    return found


def _is_known(knob: str, value: Any) -> bool:
    """Whether a knob can have the value: torch takes more, such as an rpc_timeout of 0."""
    try:
        KNOBS[knob].read(value)
    except ValueError:
        return False
    return True
