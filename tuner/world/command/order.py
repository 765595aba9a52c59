"""The order to the hook in a program, by the environment, which every child process inherits."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tuner.errors import UsageError
from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.knobs import INTRA_OP_THREADS, KNOBS, agent_options
from tuner.process_knobs import THREAD_VARIABLES

HOOK = Path(__file__).with_name("hook")
ORDER_VARIABLE = "RPC_TUNER_ORDER"
CHANNEL = "channel"
"""The socket in the folder of reports that every process connects to."""
_PACKAGE = Path(__file__).resolve().parents[3]


def refuse_two_orders(given: Mapping[str, str]) -> None:
    """UsageError if the environment has an order already: a hook obeys only one."""
    if ORDER_VARIABLE in given:
        what = "record, search or run has started this command. Only one of them reaches"
        raise UsageError(f"{what} the program: start each of them with the program itself")


@dataclass(frozen=True, kw_only=True)
class RecordingOrder:
    """What every rank records of its calls, and when."""

    operators: bool = False
    """Whether to record operators too, which costs more."""
    start_after_s: float = 0.0
    """From `init_rpc` on."""
    for_s: float | None = None
    """None: to the rank's end."""


@dataclass(frozen=True, kw_only=True)
class HookOrder:
    """What the processes of one run of a program are to do."""

    config: Config
    """The knobs to set; what it does not name stays as the program has it."""
    reports: Path
    """The folder of the channel, and of the files that each process writes."""
    roles: Sequence[tuple[str, str]] = ()
    """Pairs of a role and a pattern of its RPC names; see `tuner.roles.role_of`."""
    say: bool = False
    """Whether each rank prints one line on stderr about what it got."""
    recording: RecordingOrder | None = None
    learn: bool = False
    """Whether each rank reports what it has imported by `init_rpc`, for a warm start."""
    probe: bool = False
    """Whether each rank answers to `tuner.world.command.program_channel`."""
    counts: bool = False
    """Whether each rank that answers reports now and then, unasked, how many calls it has made."""
    ranks: int | None = None
    """How many ranks the program is known to have; None: its ranks may know."""

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The environment of the program: what is given, with the hook; UsageError if one is. Where
        all ranks get one number of intra-op threads, so do its libraries, unless that is given."""
        refuse_two_orders(given)
        path = os.pathsep.join([str(HOOK), *filter(None, [given.get("PYTHONPATH")])])
        threads = {value for each, value in self.config.items if each.knob == INTRA_OP_THREADS.name}
        is_for_all = Dimension(ALL_ROLES, INTRA_OP_THREADS.name) in self.config.values
        variables = THREAD_VARIABLES if is_for_all and len(threads) == 1 else ()
        counts = dict.fromkeys(variables, str(*threads)) if variables else {}
        return {**counts, **given, "PYTHONPATH": path, ORDER_VARIABLE: self.to_json()}

    def to_json(self) -> str:
        """The order as the hook reads it."""
        options, process = dict[str, dict[str, object]](), dict[str, dict[str, object]]()
        for dimension, value in self.config.items:
            role, name = dimension.role, dimension.knob
            if KNOBS[name].is_init_rpc_option:
                # Also where the value is None: that is PyTorch's own choice, not the program's.
                options.setdefault(role, {})[name] = agent_options({name: value}).get(name)
            else:
                process.setdefault(role, {})[name] = value
        reports = self.reports.resolve()
        order = {
            "package": str(_PACKAGE),
            "reports": str(reports),
            "channel": str(reports / CHANNEL),
            "options": options,
            "process": process,
            "ranks": self.ranks,
            "roles": [*self.roles],
            "say": self.say,
            "recording": None if self.recording is None else asdict(self.recording),
            "learn": self.learn,
            "counts": self.counts,
            "probe": self.probe,
        }
        return json.dumps(order)
