import json
from typing import Any

import pytest

from testing.golden_files import NATIVE, rows
from tuner.errors import UsageError
from tuner.trace.files.native_reader import trace_of
from tuner.trace.files.native_writer import FORMAT

GOLDEN: dict[str, Any] = json.loads(NATIVE.read_text())


def document(*events: dict[str, Any], **facts: Any) -> bytes:
    """The golden trace with these events and facts in place of its own."""
    own = {"rpc_tuner": GOLDEN["rpc_tuner"] | facts} | ({"traceEvents": events} if events else {})
    return json.dumps(GOLDEN | own).encode()


def changed(cat: str, ph: str, **changes: Any) -> bytes:
    """The golden trace; the first event of this category and phase is changed."""
    events = [dict(event) for event in GOLDEN["traceEvents"]]
    next(each for each in events if (each.get("cat"), each["ph"]) == (cat, ph)).update(changes)
    return document(*events)


NEWER = (
    f"a newer rpc-tuner wrote it, in format {{}}; this one reads format {FORMAT}: upgrade rpc-tuner"
)
OTHER = "not as rpc-tuner writes its traces:"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (document(format=FORMAT + 1), NEWER.format(FORMAT + 1)),
        (document(format=1), f"an older rpc-tuner wrote it, in format 1; this one reads format "
         f"{FORMAT}: record it again"),
        (document(format=0), "damaged: there is no format 0"),
        # Nothing else of it can be read.
        (b'{"rpc_tuner": {"format": 99, "ranks": "all"}, "traceEvents": {}}', NEWER.format(99)),
        (changed("rpc", "b", args=None), "damaged: a call lacks its facts"),
        (changed("rpc", "b", ts=None), "damaged: a call has no time"),
        (changed("rpc", "b", tid=None), "damaged: a call lacks its number, rank or thread"),
        (changed("rpc", "b", id=11), "damaged: call 11 is repeated"),
        (changed("rpc_served", "X", args={"call": 11}), "damaged: call 11 is served twice"),
        (changed("rpc_served", "X", args={}), "damaged: a served call lacks its number, rank or "),
        (changed("cpu_op", "X", dur=None), "damaged: an operator has no time"),
        (changed("rpc", "b", args={"site": 42}),
         f"{OTHER} Expected `str`, got `int` - at `$.traceEvents[3].args.site`"),
        (changed("rpc", "b", args={"defined": None}),
         f"{OTHER} Expected `str`, got `null` - at `$.traceEvents[3].args.defined`"),
        (changed("rpc", "e", ts=-1), "damaged: call 12 ends before it begins"),
        (changed("rpc", "b", ts=1e300),
         f"{OTHER} Expected `float` < 4503599627370496.0 - at `$.traceEvents[3"),
        (changed("cpu_op", "X", dur=-1),
         f"{OTHER} Expected `float` >= 0.0 - at `$.traceEvents[14].dur`"),
        (document(window_ns=[2, 1]), "damaged: its window ends before it begins"),
        (document(base_time_ns=2**62),
         f"{OTHER} base_time_ns cannot be 4611686018427387904 - at `$.rpc_tuner`"),
        (document(window_ns=[0, 2**62]), f"{OTHER} window_ns cannot be [0, 4611686018427387904]"),
        (document(ranks=[{"rank": 0, "name": "a", "cpu_s": -1}]), f"{OTHER} cpu_s cannot be -1.0"),
    ],
)  # fmt: skip
def test_a_trace_of_another_format_or_a_damaged_one_is_refused(
    content: bytes, problem: str
) -> None:
    with pytest.raises(UsageError) as refused:
        trace_of(content, "a.json")
    assert str(refused.value).startswith(f"a.json: {problem}")


def test_a_served_call_without_its_client_is_left_out_and_a_loss() -> None:
    events = [event for event in GOLDEN["traceEvents"] if event.get("id") != 11]
    trace = trace_of(document(*events), "a.json")
    assert len(trace.calls) == 2
    assert trace.losses[1:] == ("Left out of a.json: 1 served call without its client's side.",)


def test_a_call_whose_end_is_cut_off_is_unfinished() -> None:
    content = document()
    length = content.index(b'"ph": "e"')
    trace = trace_of(content[:length], "a.json")
    assert rows(trace.calls, "call_id", "status", "end_ns") == [(12, "unfinished", None)]
    assert trace.losses[1:] == (
        f"a.json breaks off at byte {length}, after 4 complete events.",
        "Missing from a.json: the end of 1 call.",
    )


def test_endless_names_are_shortened() -> None:
    names = trace_of(changed("cpu_op", "X", name="n" * 10**6), "a").operators["name"]
    assert any("[... 999,000 characters ...]" in name for name in names)


def test_sites_of_an_older_trace_are_empty_and_endless_ones_shortened() -> None:
    assert rows(trace_of(document(), "a").calls, "site", "defined") == [("", "")] * 3
    facts = next(each["args"] for each in GOLDEN["traceEvents"] if each.get("cat") == "rpc")
    calls = trace_of(changed("rpc", "b", args=facts | {"site": "s" * 10**6}), "a").calls
    assert any("[... 999,000 characters ...]" in each for each in calls["site"])
