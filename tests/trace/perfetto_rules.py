"""Checks a whole trace file against those rules of Perfetto that our reader does not check."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Event = Mapping[str, Any]
Slices = Mapping[tuple[int, int], list[tuple[float, float, str]]]
"""Start, end (ns) and name of the slices of each process and thread, outer slices first."""


def broken_rules(document: Mapping[str, Any]) -> list[str]:
    """What is wrong with a file, each as a sentence."""
    events = document["traceEvents"]
    slices = defaultdict[tuple[int, int], list[tuple[float, float, str]]](list)
    for event in events:
        if event["ph"] in ("X", "B"):
            start = _ns(event["ts"])
            end = math.inf if event["ph"] == "B" else start + _ns(event["dur"])
            slices[event["pid"], event["tid"]].append((start, end, event["name"]))
    for of_track in slices.values():
        of_track.sort(key=lambda each: (each[0], -each[1]))
    halves = [*_loose_halves(events, "b", "e"), *_loose_halves(events, "s", "f")]
    return [*_badly_formed(events), *_crossing_slices(slices), *halves,
            *_loose_arrows(events, slices)]  # fmt: skip


def _ns(us: float) -> int:
    return round(us * 1000)


def _badly_formed(events: Sequence[Event]) -> Iterator[str]:
    named = {(event["pid"], event.get("tid")) for event in events
             if event["ph"] == "M" and event["args"].get("name")}  # fmt: skip
    for event in events:
        name, phase = event["name"], event["ph"]
        if phase not in ("M", "b", "e", "s", "f", "X", "B"):
            yield f"unknown phase {phase}"
        if phase != "M" and not {(event["pid"], None), (event["pid"], event["tid"])} <= named:
            yield f"the process or the thread of {name} has no name"


def _crossing_slices(slices: Slices) -> Iterator[str]:
    for track, of_track in slices.items():
        around: list[tuple[float, float, str]] = []
        for each in of_track:
            while around and around[-1][1] <= each[0]:
                around.pop()
            if around and each[1] > around[-1][1]:
                yield f"on {track}, {each} crosses {around[-1]}"
            around.append(each)


def _loose_halves(events: Sequence[Event], first: str, last: str) -> Iterator[str]:
    """Async events and arrows; only an async event may have no end."""
    halves: dict[str, dict[tuple[str, int], Event]] = {first: {}, last: {}}
    same = ("name", "pid") if last == "e" else ("name",)
    for event in events:
        if (found := halves.get(event["ph"])) is not None:
            if (key := (event["cat"], event["id"])) in found:
                yield f"{event['name']} shares its id {event['id']}"
            found[key] = event
    for key in halves[first].keys() | halves[last].keys():
        begin, end = (found.get(key) for found in halves.values())
        if begin is None or (end is None and last == "f"):
            yield f"{key} is half of an event"
        elif end is not None and any(begin[each] != end[each] for each in same):
            yield f"{begin['name']} ends as {end['name']}"


def _loose_arrows(events: Sequence[Event], slices: Slices) -> Iterator[str]:
    for event in events:
        if event["ph"] in ("s", "f"):
            time, track = _ns(event["ts"]), slices.get((event["pid"], event["tid"]), [])
            if not any(start <= time <= end for start, end, _ in track):
                yield f"the arrow {event['ph']} of {event['name']} is at no slice"
            if event["ph"] == "f" and event.get("bp") != "e":
                yield f"the arrow of {event['name']} ends at the next slice, not at its own"
