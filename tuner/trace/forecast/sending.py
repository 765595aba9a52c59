"""Changes of what calls carry: one tensor for many, one pickle for several servers, a value kept.

Each tensor of a message is pickled, sent, unpickled and freed on its own, all with the GIL. What a
message takes beyond the way of its bytes goes with the number of its tensors, and so does what is
done meanwhile, beyond what it takes at its quickest.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import pandas as pd

from tuner.trace.analyze.path_limits import MANY_TENSORS
from tuner.trace.analyze.suggestions import NS_PER_BYTE
from tuner.trace.analyze.time_spans import floats
from tuner.trace.forecast.change import (
    LARGE,
    Change,
    Changed,
    Changing,
    Message,
    each_frame,
)
from tuner.trace.forecast.program import (
    AWAIT,
    COMPUTE_WITH_GIL,
    COMPUTES,
    HOLD_LOCK,
    ISSUE,
    SLEEP,
    Call,
    Op,
    Program,
    own_ns,
)
from tuner.trace.forecast.ways import UNHINDERED

LOCAL_NS_PER_BYTE = 1.0  # between processes of a host
ISSUE_NS = 100_000.0  # what it takes to issue a call, but for its tensors and what is pickled
WAY_NS = 200_000.0  # of a small message, where the trace has none
MADE_NS = 8_000.0
"""A function that computes for less for each tensor of its answer does little but to make them."""
FREED_NS = 3_000.0  # what it takes its caller to make it, or to free it while others do, too
JOINED_NS = 1_000.0  # what it takes of each tensor to join them, and to part them again


def messages_of(calls: pd.DataFrame) -> list[Message]:
    """What these calls carry, which are sorted by start."""
    columns = [
        np.nan_to_num(floats(calls, f"{end}_{what}"), nan=unknown).tolist()
        for end in ("request", "answer") for what, unknown in (("tensors", 0.0), ("bytes", np.inf))
    ]  # fmt: skip
    ids, same_as = calls["call_id"].to_numpy(), floats(calls, "same_as")
    row = {number: place for place, number in enumerate(ids.tolist())}
    start, end = floats(calls, "start_ns").tolist(), floats(calls, "end_ns").tolist()
    fetches = (calls["kind"] == "to_here").tolist()
    fetched, sent = dict[int, int](), dict[int, int]()
    same = list[int]()
    for place, number in enumerate(np.where(np.isnan(same_as), ids, same_as).tolist()):
        # The first one of all may have been before this part of the trace.
        found = row[number] if number in row else sent.setdefault(number, place)
        if fetches[place]:
            found = fetched.setdefault(number, place)
            found = found if end[found] <= start[place] else place
        same.append(-1 if found == place or fetches[found] != fetches[place] else found)
    return [Message(*each) for each in zip(*columns, same, strict=True)]


def of_messages(of: Changing) -> list[Change]:
    """The changes of this module that a program may take."""
    calls, sites = of.program.calls, of.made.site
    many, fetches = (defaultdict[tuple[str, str], list[float]](list) for _ in range(2))
    servers = defaultdict[tuple[str, str], set[int]](set)
    for number, own in enumerate(of.messages):
        name, site = calls[number].function, sites[number]
        if calls[number].is_seen and own.answer_tensors >= MANY_TENSORS:
            many[name, ""].append(own.answer_tensors)
        elif calls[number].is_seen and own.request_tensors >= MANY_TENSORS and site:
            many[name, site].append(own.request_tensors)
    for number, first in sent_again(of).items():
        servers[calls[number].function, sites[number]] |= {
            calls[number].server, calls[first].server
        }  # fmt: skip
    for number, first in fetched_again(of).items():
        fetches[calls[number].function, sites[number]].append(first)
    return [
        *(Change(kind="tensors", function=name, site=site, number=median(own))
          for (name, site), own in many.items()),
        *(Change(kind="pickle-once", function=name, site=site, number=len(own))
          for (name, site), own in servers.items()),
        *(Change(kind="fetch-once", site=site, number=1 + _usual(own))
          for (_, site), own in fetches.items()),
    ]  # fmt: skip


def _usual(firsts: Sequence[float]) -> float:
    """How many others usually are the same as a first one."""
    return median(Counter(firsts).values())


def tensors(of: Changing, change: Change) -> Changed:
    """Each message of many tensors holds them as one."""
    small = _small_ways(of)
    computed_ns, slept_ns = (_usual_ns(of, kinds) for kinds in (COMPUTES, (SLEEP,)))
    calls, issues = list(of.program.calls), dict[int, float]()
    made, freed = dict[int, float](), dict[int, float]()
    met = set[tuple[int, int]]()
    for number, (call, own) in enumerate(zip(of.program.calls, of.messages, strict=False)):
        is_first = (call.client, call.server) not in met  # then they may have to connect
        met.add((call.client, call.server))
        has_many = own.request_tensors >= MANY_TENSORS, own.answer_tensors >= MANY_TENSORS
        if not (call.is_seen and any(has_many)
                and change.is_about(call.function, of.made.site[number])):  # fmt: skip
            continue
        least, per_byte = small[_is_local(of.program, call)] * of.doubt, of.doubt
        per_byte *= LOCAL_NS_PER_BYTE if _is_local(of.program, call) else NS_PER_BYTE
        if has_many[0] or (own.request_bytes < LARGE and not is_first):
            way = least + own.request_bytes * per_byte
            there = min(call.way_there, way)
            call = replace(call, unpickles=(), arrives=(), to_server=there)
            issues[number] = ISSUE_NS * of.doubt
            made[number] = FREED_NS * own.request_tensors / of.doubt
        if has_many[0] and not has_many[1]:
            # Freeing what it has sent keeps its client from the answer.
            size = own.answer_bytes if math.isfinite(own.answer_bytes) else 0.0
            back = min(call.way_back, least + size * per_byte)
            call = replace(call, returns=(), to_client=back)
        if has_many[1]:
            way = min(call.way_back, least + own.answer_bytes * per_byte)
            call = replace(call, pickles=(), receives=(), returns=(), to_client=way)
            freed[number] = FREED_NS * own.answer_tensors
            makes = computed_ns[call.function] <= MADE_NS * own.answer_tensors
            joined = [*call.ops, (COMPUTE_WITH_GIL, JOINED_NS * own.answer_tensors)]
            waits = [op for op in call.ops if op[0] == HOLD_LOCK]
            # To make them it waited for CPUs and for memory, too.
            slept = min(slept_ns[call.function], own_ns(call.ops, SLEEP))
            is_little = makes and all(kind < ISSUE for kind, _ in call.ops)
            call = replace(call, ops=[(SLEEP, slept), *waits] if is_little else joined)
        calls[number] = call
    if not issues and not freed:
        return None
    return _by_callers(replace(of.program, calls=calls), issues, made, freed), of.machine


def pickle_once(of: Changing, change: Change) -> Changed:
    """A large argument that several servers get is pickled for the first one."""
    issues = {
        number: ISSUE_NS + of.messages[number].request_bytes * LOCAL_NS_PER_BYTE
        for number in sent_again(of)
        if change.is_about(of.program.calls[number].function, of.made.site[number])
    }
    return (_by_callers(of.program, issues, {}, {}, of.doubt), of.machine) if issues else None


def sent_again(of: Changing) -> dict[int, int]:
    """The calls whose large request another server got before, and of which call that is the
    same."""
    calls, made = of.program.calls, of.made
    return {
        number: own.same_as
        for number, own in enumerate(of.messages)
        if own.same_as >= 0 and made.kind[number] != "to_here" and own.request_bytes >= LARGE
        and made.site[number] == made.site[own.same_as]
        and calls[number].server != calls[own.same_as].server
    }  # fmt: skip


def fetch_once(of: Changing, change: Change) -> Changed:
    """A process fetches the value of an RRef once, and keeps it."""
    gone = {
        number for number in fetched_again(of)
        if change.is_about(of.program.calls[number].function, of.made.site[number])
    }  # fmt: skip
    if not gone or of.program.permits:
        return None

    def kept(ops: Sequence[Op]) -> list[Op]:
        return [op for op in ops if op[0] not in (ISSUE, AWAIT) or op[1] not in gone]

    return each_frame(of.program, kept), of.machine


def fetched_again(of: Changing) -> dict[int, int]:
    """The calls that fetch what their process has fetched before, and by which call."""
    return {
        number: own.same_as
        for number, own in enumerate(of.messages)
        if own.same_as >= 0 and of.made.kind[number] == "to_here"
    }


def _usual_ns(of: Changing, kinds: Collection[int]) -> dict[str, float]:
    """By function that answers with many tensors: how long its calls usually do this."""
    found = defaultdict[str, list[float]](list)
    for call, own in zip(of.program.calls, of.messages, strict=False):
        if call.is_seen and own.answer_tensors >= MANY_TENSORS:
            found[call.function].append(sum(own_ns(call.ops, kind) for kind in kinds))
    return {name: median(times) for name, times in found.items()}


def sending_ns(of: Changing) -> dict[int, float]:
    """By call whose request has many tensors: how long its process sends them, one message after
    another: half of its way beyond that of a small message; the other half is to receive them."""
    small = _small_ways(of)
    return {
        number: max(call.way_there - small[_is_local(of.program, call)], 0.0) / 2
        for number, (call, own) in enumerate(zip(of.program.calls, of.messages, strict=False))
        if call.is_seen and own.request_tensors >= MANY_TENSORS
    }


def _small_ways(of: Changing) -> dict[bool, float]:
    """How long the quickest small messages take, between hosts and on one."""
    found = dict[bool, list[float]]({False: [], True: []})
    for call, own in zip(of.program.calls, of.messages, strict=False):
        if not call.is_seen or call.is_callback:
            continue
        ways = found[_is_local(of.program, call)]
        if own.request_tensors < MANY_TENSORS and own.request_bytes < LARGE:
            ways.append(call.way_there)
        is_small = max(own.request_tensors, own.answer_tensors) < MANY_TENSORS
        if is_small and not call.pickles and not call.receives:
            ways.append(call.way_back)
    return {at: float(np.quantile(ways or [WAY_NS], UNHINDERED)) for at, ways in found.items()}


def _is_local(program: Program, call: Call) -> bool:
    return program.hosts[call.client] == program.hosts[call.server]


def _by_callers(
    program: Program, issues: Mapping[int, float], made: Mapping[int, float],
    freed: Mapping[int, float], doubt: float = 1.0,
) -> Program:  # fmt: skip
    """The program whose threads issue some calls in so much time at most, if that is less, and take
    so much less before them, and after others; of what is saved by the first only a part is, where
    that is in doubt."""
    roots = list(program.roots)
    for place, root in enumerate(roots):
        ops, left, following = list(root.ops), 0.0, list[int]()
        for kind, value in reversed(root.ops):
            issued = int(value) if kind == ISSUE else following[-1] if following else -1
            following.append(issued)
        following.reverse()  # by op: which call is issued next
        for at, (kind, value) in enumerate(ops):
            is_issuing = ops[at + 1 : at + 2] and ops[at + 1][0] == ISSUE
            if kind == AWAIT:
                left = freed.get(int(value), 0.0) + made.get(following[at], 0.0)
            elif kind == COMPUTE_WITH_GIL and is_issuing:
                most = issues.get(following[at], value)
                ops[at] = kind, value - max(value - most, 0.0) / doubt
            elif kind < ISSUE:
                ops[at] = kind, max(value - left, 0.0)
                left = max(left - value, 0.0)
        roots[place] = replace(root, ops=ops)
    return replace(program, roots=roots)
