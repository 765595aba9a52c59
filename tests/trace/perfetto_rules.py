"""Checks a whole trace file against the rules of Perfetto for events."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Event = Mapping[str, Any]
Track = tuple[int, int]
"""A process and a thread."""


def broken_rules(document: Mapping[str, Any]) -> list[str]:
    """What is wrong with a file, each as a sentence."""
    events = document["traceEvents"]
    slices = _slices(events)
    return [
        *_badly_formed(events),
        *_nameless_tracks(events),
        *_crossing_slices(slices),
        *_loose_halves(events, "b", "e"),
        *_loose_halves(events, "s", "f"),
        *_loose_arrows(events, slices),
    ]


def _slices(events: Sequence[Event]) -> dict[Track, list[tuple[float, float, str]]]:
    """Start, end (ns) and name of the slices of each track, outer slices first."""
    found: dict[Track, list[tuple[float, float, str]]] = defaultdict(list)
    for event in events:
        if event["ph"] in ("X", "B"):
            start = _ns(event["ts"])
            end = math.inf if event["ph"] == "B" else start + _ns(event["dur"])
            found[event["pid"], event["tid"]].append((start, end, event["name"]))
    for of_track in found.values():
        of_track.sort(key=lambda each: (each[0], -each[1]))
    return found


def _ns(us: float) -> int:
    return round(us * 1000)


def _badly_formed(events: Sequence[Event]) -> Iterator[str]:
    calls = {None, *(event["id"] for event in events if event["ph"] == "b")}
    for event in events:
        if event["ph"] not in ("M", "b", "e", "s", "f", "X", "B"):
            yield f"unknown phase {event['ph']}"
        if event["ph"] != "M" and not 0 <= event["ts"] < 1e15:
            yield f"{event['name']} has the time {event['ts']}"
        if event["ph"] == "X" and not 0 <= event["dur"] < 1e15:
            yield f"{event['name']} lasts {event['dur']}"
        if (call := event.get("args", {}).get("call")) not in calls:
            yield f"{event['name']} belongs to call {call}, which is not there"


def _nameless_tracks(events: Sequence[Event]) -> Iterator[str]:
    named = {
        (event["name"], event["pid"], event.get("tid"))
        for event in events
        if event["ph"] == "M" and event["args"].get("name")
    }
    used = {(event["pid"], event["tid"]) for event in events if event["ph"] != "M"}
    needed = {("process_name", pid, None) for pid, _ in used}
    needed |= {("thread_name", *track) for track in used}
    yield from (f"there is no {name} of {where}" for name, *where in needed - named)


def _crossing_slices(slices: Mapping[Track, list[tuple[float, float, str]]]) -> Iterator[str]:
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
    for event in events:
        if (found := halves.get(event["ph"])) is not None:
            if (key := (event["cat"], event["id"])) in found:
                yield f"{event['name']} shares its id {event['id']}"
            found[key] = event
    for key in halves[first].keys() | halves[last].keys():
        begin, end = (found.get(key) for found in halves.values())
        if begin is None or (end is None and last == "f"):
            yield f"{key} is half of an event"
        elif end is not None:
            same = ("name", "pid") if last == "e" else ("name",)
            if any(begin[name] != end[name] for name in same):
                yield f"{begin['name']} ends as {end['name']}"
            if end["ts"] < begin["ts"]:
                yield f"{begin['name']} goes back in time"


def _loose_arrows(
    events: Sequence[Event], slices: Mapping[Track, list[tuple[float, float, str]]]
) -> Iterator[str]:
    for event in events:
        if event["ph"] in ("s", "f"):
            time, track = _ns(event["ts"]), slices[event["pid"], event["tid"]]
            if not any(start <= time <= end for start, end, _ in track):
                yield f"the arrow {event['ph']} of {event['name']} is at no slice"
            if event["ph"] == "f" and event.get("bp") != "e":
                yield f"the arrow of {event['name']} ends at the next slice, not at its own"
