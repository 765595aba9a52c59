"""The recommendation as a Python module that needs no rpc-tuner: `export --format python`."""

import math
import textwrap
from collections.abc import Iterator

from tuner.plan.knobs import INTRA_OP_THREADS
from tuner.recommended.model import Recommendation
from tuner.recommended.python_source import (
    ALONE,
    BIND_CPUS,
    BINDING_IMPORTS,
    WIDTH,
    literal,
    options_call,
    switch_intervals,
    table,
)
from tuner.recommended.recheck import recheck_command
from tuner.text import UNTOLD, is_told, percent, plural, three_digits

_START = '''\
def start_rpc(rank: int) -> None:
    """Start RPC in the process of this rank; MASTER_ADDR and MASTER_PORT say where."""
    name, role = RANKS[rank]
{process}    torch.set_num_threads(INTRA_OP_THREADS[role])
    rpc.init_rpc(
        name,
        rank=rank,
        world_size=len(RANKS),
        rpc_backend_options=OPTIONS[role],
    )


if __name__ == "__main__":
    if "RANK" not in os.environ:
        raise SystemExit(f"to see that it runs: {SELF_CHECK} {sys.argv[0]}")
    start_rpc(int(os.environ["RANK"]))
    gauges = rpc.api._get_current_rpc_agent().get_debug_info()
    threads = gauges["agent.thread_pool_size"]
    line = f"{rpc.get_worker_info().name}: num_worker_threads={threads}{cpus}\\n"
    print(line, end="", flush=True)
    rpc.shutdown()
'''


def as_python(recommendation: Recommendation, sentence: str) -> str:
    """A module with the options of each role and the `init_rpc` call.

    It starts RPC for a program that imports it, and checks itself under `torchrun`.

    Args:
        recommendation: The configuration.
        sentence: What stands first in the module.
    """
    ranks = recommendation.ranks
    values = {role: recommendation.values_of(role) for role in recommendation.roles}
    threads = {role: of_role[INTRA_OP_THREADS.name] for role, of_role in values.items()}
    command = f"torchrun --standalone --nproc-per-node {len(ranks)}"
    names = literal([(rank.name, rank.role) for rank in ranks])
    options = table((role, options_call(of_role)) for role, of_role in values.items())
    bound, intervals = recommendation.config.binds, switch_intervals(values)
    seconds = literal(intervals).labelled("SWITCH_INTERVALS = ").lines() if intervals else []
    process = "    bind_cpus(rank, len(RANKS))\n" if bound else ""
    cpus = " CPUs={sorted(os.sched_getaffinity(0))}" if bound else ""
    if intervals:
        process += "    sys.setswitchinterval(SWITCH_INTERVALS[role])\n"
    lines = [
        *_comment(recommendation, sentence, command),
        "",
        "import os",
        "import sys",
        *(BINDING_IMPORTS if bound else ()),
        "",
        "import torch",
        "import torch.distributed.rpc as rpc",
        "",
        "# Name and role of each process, by rank.",
        *names.labelled("RANKS = ").lines(spread=True),
        "# As measured.",
        *literal(threads).labelled("INTRA_OP_THREADS = ").lines(),
        *seconds,
        *options.labelled("OPTIONS = ").lines(spread=True),
        f"SELF_CHECK = {literal(command)}",
        *((BIND_CPUS,) if bound else ("",)),
        "",
    ]
    return "\n".join(lines) + "\n" + _START.replace("{process}", process).replace("{cpus}", cpus)


def _comment(recommendation: Recommendation, sentence: str, self_check: str) -> Iterator[str]:
    environment = recommendation.environment
    kind, which = environment.what
    config = f"trial {recommendation.trial}: {recommendation.config}"
    facts = {
        "study": f"{recommendation.study}, {config}",
        "verdict": recommendation.verdict or "none: chosen by hand",
        "speed-up": _speedup(recommendation),
        "measured": _measured(recommendation),
        "baseline": str(recommendation.baseline),
        kind: which,
        "date": environment.date.isoformat(sep=" ", timespec="seconds"),
        "machine": (
            f"{plural(environment.cpu_count, 'logical CPU')} ({environment.cpu_model}), "
            f"{environment.memory_gb:g} GB, Linux {environment.kernel}"
        ),
        "software": f"torch {environment.torch}, Python {environment.python}",
    }
    yield from _wrapped(sentence, "")
    if recommendation.config.binds:
        yield from _wrapped(ALONE, "")
    yield "#"
    for name, fact in facts.items():
        yield from _wrapped(f"{name + ':':<10}{fact}", " " * 10)
    yield "#"
    yield "# To measure it again:"
    # On one line, to be copied.
    yield f"#   {_printable(recheck_command(recommendation))}"
    yield f"# To see that it runs: {self_check} THIS_FILE"


def _wrapped(text: str, indent: str) -> Iterator[str]:
    for line in textwrap.wrap(_printable(text), WIDTH - 2, subsequent_indent=indent,
                              break_long_words=False, break_on_hyphens=False):  # fmt: skip
        yield f"# {line}"


def _printable(text: str) -> str:
    """The text without characters that would end a comment."""
    return "".join(character if character.isprintable() else " " for character in text)


def _speedup(recommendation: Recommendation) -> str:
    speedup = recommendation.speedup
    if recommendation.config == recommendation.baseline:
        return "1: this configuration is the baseline"
    if speedup.estimate is None:
        return UNTOLD if recommendation.challenger.config == recommendation.config else "not known"
    if not is_told(speedup.ci_low or 0.0, speedup.ci_high or math.inf):
        return UNTOLD
    interval = _interval(speedup.ci_low, speedup.ci_high, recommendation.confidence)
    return f"{three_digits(speedup.estimate)}{interval}, baseline time / this time"


def _measured(recommendation: Recommendation) -> str:
    measured = recommendation.measured
    if measured.value is None:
        return "no world that counts"
    interval = _interval(measured.ci_low, measured.ci_high, recommendation.confidence)
    value = f"{three_digits(measured.value)} {measured.unit}"
    return f"{recommendation.objective} {value}{interval}, {plural(measured.worlds, 'world')}"


def _interval(low: float | None, high: float | None, confidence: float) -> str:
    if low is None:
        return ""
    ends = f"{three_digits(low)} " + ("or more" if high is None else f"to {three_digits(high)}")
    return f" ({ends}, {percent(confidence)} confidence)"
