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
    return [
        *_badly_formed(events),
        *_nameless_tracks(events),
        *_crossing_slices(events),
        *_loose_async_events(events),
        *_loose_arrows(events),
        *_unknown_calls(events),
    ]


def slices(events: Sequence[Event]) -> dict[Track, list[tuple[float, float, str]]]:
    """Start, end (ns) and name of the slices of each track, outer slices first; a slice without an
    end ends at infinity."""
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
    for event in events:
        phase = event["ph"]
        if phase not in ("M", "b", "e", "s", "f", "X", "B"):
            yield f"unknown phase {phase}"
        if phase != "M" and not 0 <= event["ts"] < 1e15:
            yield f"{event['name']} has the time {event['ts']}"
        if phase == "X" and not 0 <= event["dur"] < 1e15:
            yield f"{event['name']} lasts {event['dur']}"


def _nameless_tracks(events: Sequence[Event]) -> Iterator[str]:
    names = {
        (event["name"], event["pid"], event.get("tid")): event["args"].get("name")
        for event in events
        if event["ph"] == "M"
    }
    used = {(event["pid"], event["tid"]) for event in events if event["ph"] != "M"}
    for pid in sorted({pid for pid, _ in used}):
        if not names.get(("process_name", pid, None)):
            yield f"process {pid} has no name"
    for pid, tid in sorted(used):
        if not names.get(("thread_name", pid, tid)):
            yield f"thread {tid} of process {pid} has no name"


def _crossing_slices(events: Sequence[Event]) -> Iterator[str]:
    for track, of_track in slices(events).items():
        around: list[tuple[float, float, str]] = []
        for each in of_track:
            while around and around[-1][1] <= each[0]:
                around.pop()
            if around and each[1] > around[-1][1]:
                yield f"on {track}, {each} crosses {around[-1]}"
            around.append(each)


def _loose_async_events(events: Sequence[Event]) -> Iterator[str]:
    phases: dict[str, dict[tuple[str, int], Event]] = {"b": {}, "e": {}}
    for event in events:
        if (of_phase := phases.get(event["ph"])) is not None:
            key = (event["cat"], event["id"])
            if key in of_phase:
                yield f"{event['name']} shares its id {event['id']}"
            of_phase[key] = event
    for key, event in phases["e"].items():
        begin = phases["b"].get(key)
        if begin is None or begin["name"] != event["name"] or begin["pid"] != event["pid"]:
            yield f"{event['name']} ends, and did not begin"
        elif event["ts"] < begin["ts"]:
            yield f"{event['name']} ends before it begins"


def _loose_arrows(events: Sequence[Event]) -> Iterator[str]:
    of_track = slices(events)
    ends: dict[str, dict[tuple[str, int, str], Event]] = {"s": {}, "f": {}}
    for event in events:
        if event["ph"] in ends:
            key = (event["cat"], event["id"], event["name"])
            if key in ends[event["ph"]]:
                yield f"{key} has two arrows"
            ends[event["ph"]][key] = event
            time = _ns(event["ts"])
            track = of_track[event["pid"], event["tid"]]
            if not any(start <= time <= end for start, end, _ in track):
                yield f"the arrow {event['ph']} of {event['name']} is at no slice"
            if event["ph"] == "f" and event.get("bp") != "e":
                yield f"the arrow of {event['name']} ends at the next slice, not at its own"
    for key in ends["s"].keys() ^ ends["f"].keys():
        yield f"{key} is half an arrow"
    for key in ends["s"].keys() & ends["f"].keys():
        if ends["f"][key]["ts"] < ends["s"][key]["ts"]:
            yield f"{key} points back in time"


def _unknown_calls(events: Sequence[Event]) -> Iterator[str]:
    known = {event["id"] for event in events if event["ph"] == "b"}
    for event in events:
        call = event.get("args", {}).get("call")
        if call is not None and call not in known:
            yield f"{event['name']} belongs to call {call}, which is not there"
