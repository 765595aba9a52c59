"""What a trace does not show of how calls were served, and why: it is missing, and no limit."""

import re

import pandas as pd

from tuner.trace.analyze.limits import SHOWN, UNSEEN, Limit, share_text
from tuner.trace.analyze.path.steps import Share
from tuner.trace.model.trace import Trace

_WITHOUT_PYTHON = {
    "builtin": "builtin operators run without Python",
    "script": "TorchScript functions run without Python",
    "fetch": "PyTorch answers to_here without Python",
}


def unseen_shares(trace: Trace, driver: str, shares: list[Limit]) -> tuple[str, ...]:
    """How much of the time the trace does not explain, of which servers, and why."""
    sentences = []
    for each in shares:
        if each.share.share < SHOWN:
            continue
        if each.kind == "backward":
            sentences.append(
                f"{driver} was in dist_autograd.backward for {_of_the_time(each.share)}: "
                "what the ranks compute and send for each other meanwhile is not recorded."
            )
        elif each.kind == UNSEEN:
            calls = trace.calls
            here = calls["server"].isin(each.processes) & calls["function"].isin(each.functions)
            why = why_unseen(trace, calls[here])
            of_time = f"For {_of_the_time(each.share)}, {driver} {each.phrase(driver)}"
            sentences.append(f"{of_time}{why}.")
    return tuple(sentences)


def _of_the_time(share: Share) -> str:
    return f"{share_text(share) if share.is_known else 'an unknown share'} of the time"


def why_unseen(trace: Trace, calls: pd.DataFrame) -> str:
    """Why the trace does not show how some of these calls were served: `: because`.

    Empty where the trace does not say.
    """
    unseen = calls[calls["server_end_ns"].isna()]
    bodies, servers = (set(unseen[column].astype(str)) for column in ("body", "server"))
    reasons = []
    for body, reason in _WITHOUT_PYTHON.items():
        if body in bodies:
            is_shown = body != "fetch" and not trace.operators_recorded
            reasons.append(f"{reason}{', and only a trace with operators shows them' * is_shown}")
    reasons += [
        loss.split(": ")[0] for loss in trace.losses if any(_is_of(loss, name) for name in servers)
    ]
    return f": {'; '.join(reasons)}" if reasons else ""


def _is_of(loss: str, process: str) -> bool:
    """Whether a loss is one of this process: `a, b and c ended` is one of b."""
    name = r"[\w:-]+"
    begins = rf"({name}, )*({name} and )?{re.escape(process)}(?![\w:-])"
    return re.match(begins, loss) is not None
