"""Every rule on both sides of each of its thresholds."""

import dataclasses
from typing import Any

import pytest

from tuner.trace.analyze.diagnosis import Rule, explain
from tuner.trace.analyze.server_evidence import Cpu, Evidence, Means, Use

ALONE = {"use.parallelism": 2.0, "cpu.off_share": 0.5, "cpu.cpus_used": 0.1}

BORDERS: list[tuple[str, dict[str, Any], Rule, dict[str, Any], Rule]] = [
    # The subject; evidence on one side of a threshold, and the rule; the same for the other side.
    ("few calls", {"means.calls": 9}, "calls", {"means.calls": 10}, "queueing"),
    ("unseen calls", {"served_calls": 79}, "calls", {"served_calls": 81}, "queueing"),
    ("queue", {"means.queue_us": 140}, "calls", {"means.queue_us": 160}, "queueing"),
    (
        "queue that matters",
        {"use.in_flight_fraction": 0.12, "use.busy_fraction": 0.1},
        "calls",
        {"use.in_flight_fraction": 0.14, "use.busy_fraction": 0.1},
        "queueing",
    ),
    (
        "queue behind a full pool",
        {"use.waited_full_share": 0.45},
        "calls",
        {"use.waited_full_share": 0.55},
        "queueing",
    ),
    (
        "queue behind the GIL",
        {"use.waited_full_share": 0.3},
        "calls",
        {"use.waited_full_share": 0.2},
        "gil-or-lock",
    ),
    (
        "queue on the way",
        {"use.waited_full_share": 0.0, "means.transport_us": 550},
        "calls",
        {"use.waited_full_share": 0.0, "means.transport_us": 450},
        "gil-or-lock",
    ),
    (
        "queue while no call is served",
        {"use.waited_full_share": 0.0, "use.waited_serving_share": 0.3},
        "calls",
        {"use.waited_full_share": 0.0, "use.waited_serving_share": 0.5},
        "gil-or-lock",
    ),
    (
        "GIL of an idle server",
        {"use.busy_fraction": 0.29, "cpu.gil_share": 0.9},
        "calls",
        {"use.busy_fraction": 0.31, "cpu.gil_share": 0.9},
        "gil-or-lock",
    ),
    (
        "GIL binds more threads",
        {"cpu.gil_share": 0.66},
        "queueing",
        {"cpu.gil_share": 0.68},
        "gil-or-lock",
    ),
    (
        "CPUs to gain",
        {"use.parallelism": 2.1, "cpu.cpus_used": 2.0, "cpu_count": 3},
        "calls",
        {"use.parallelism": 1.9, "cpu.cpus_used": 2.0, "cpu_count": 3},
        "queueing",
    ),
    (
        "one CPU",
        {"use.parallelism": 2.0, "cpu.off_share": 0.5, "cpu.cpus_used": 0.7, "means.queue_us": 0},
        "calls",
        {"use.parallelism": 2.0, "cpu.off_share": 0.5, "cpu.cpus_used": 0.8, "means.queue_us": 0},
        "gil-or-lock",
    ),
    (
        "off the CPU",
        {"use.parallelism": 2.0, "cpu.off_share": 0.29, "means.queue_us": 0},
        "calls",
        {"use.parallelism": 2.0, "cpu.off_share": 0.31, "means.queue_us": 0},
        "gil-or-lock",
    ),
    (
        "uncrowded calls",
        {
            "use.parallelism": 2.0,
            "cpu.off_share": 0.5,
            "cpu.off_uncrowded_ratio": 0.85,
            "cpu.off_uncrowded_whole_ratio": 0.85,
        },
        "queueing",
        {
            "use.parallelism": 2.0,
            "cpu.off_share": 0.5,
            "cpu.off_uncrowded_ratio": 0.75,
            "cpu.off_uncrowded_whole_ratio": 0.75,
        },
        "gil-or-lock",
    ),
    (
        "calls that begin alone",
        ALONE | {"cpu.off_first_ratio": 0.7},
        "queueing",
        ALONE | {"cpu.off_first_ratio": 0.6},
        "gil-or-lock",
    ),
    (
        "CPUs",
        {"cpu.run_queue_share": 0.19},
        "queueing",
        {"cpu.run_queue_share": 0.21},
        "cpus-full",
    ),
    (
        "CPUs of a full machine",
        {"cpu.run_queue_share": 0.09, "host_cpus_used": 8.0},
        "queueing",
        {"cpu.run_queue_share": 0.11, "host_cpus_used": 8.0},
        "cpus-full",
    ),
    (
        "a full machine",
        {"cpu.run_queue_share": 0.15, "host_cpus_used": 7.1},
        "queueing",
        {"cpu.run_queue_share": 0.15, "host_cpus_used": 7.3},
        "cpus-full",
    ),
    ("CPUs of its own", {"cpu.cpus_used": 7.1}, "queueing", {"cpu.cpus_used": 7.3}, "cpus-full"),
    ("blocked", {"cpu.off_share": 0.79}, "queueing", {"cpu.off_share": 0.81}, "blocked-threads"),
    (
        "all blocked",
        {"cpu.off_share": 0.9, "means.queue_us": 0, "use.full_share": 0.45},
        "calls",
        {"cpu.off_share": 0.9, "means.queue_us": 0, "use.full_share": 0.55},
        "blocked-threads",
    ),
    (
        "little served",
        {"means.queue_us": 0, "means.served_us": 310},
        "calls",
        {"means.queue_us": 0, "means.served_us": 290},
        "calls",
    ),
    (
        "idle",
        {"means.queue_us": 0, "use.busy_fraction": 0.51},
        "calls",
        {"means.queue_us": 0, "use.busy_fraction": 0.49},
        "calls",
    ),
]


@pytest.mark.parametrize("border", BORDERS, ids=[border[0] for border in BORDERS])
def test_a_rule_speaks_on_one_side_of_its_threshold(border: Any) -> None:
    _, here, rule_here, there, rule_there = border
    assert explain(evidence(here))[0] == rule_here
    assert explain(evidence(there))[0] == rule_there


@pytest.mark.parametrize(
    ("changes", "phrase", "other_changes", "other_phrase"),
    [
        (
            {"cpu.cpus_used": 0.6},
            "for the GIL or a lock",
            {"cpu.cpus_used": 0.4},
            "for a lock, or what",
        ),
        (
            {"cpu.off_first_ratio": 0.5},
            "worker1 wait",
            {"cpu.off_first_ratio": None, "cpu.cpus_used": 1.0},
            "worker1 seem to wait",
        ),
    ],
)
def test_what_is_waited_for(
    changes: dict[str, Any], phrase: str, other_changes: dict[str, Any], other_phrase: str
) -> None:
    base = {"use.parallelism": 2.0, "cpu.off_share": 0.5, "cpu.off_first_ratio": 0.5}
    assert phrase in text(base | changes)
    assert other_phrase in text(base | other_changes)


def test_a_bound_beyond_the_default_number_of_threads_is_not_named() -> None:
    assert "parallelism cannot exceed 15," in text({"cpu_count": 15})
    assert "cannot exceed" not in text({"cpu_count": 17})


def test_a_gil_share_that_the_use_of_more_than_one_cpu_refutes_is_no_bound() -> None:
    native = {"use.parallelism": 3.0, "cpu.cpus_used": 3.0, "cpu.gil_share": 0.9}
    assert explain(evidence(native))[0] == "queueing"
    assert explain(evidence(native | {"cpu.cpus_used": 1.3}))[0] == "calls"


def text(changes: dict[str, Any]) -> str:
    return " ".join(explain(evidence(changes))[1])


def evidence(changes: dict[str, Any]) -> Evidence:
    """A server with one thread, too few, that runs operators on 8 CPUs; with these changes."""
    parts: dict[str, Any] = {
        "means": Means(
            calls=100,
            latency_us=1000,
            transport_us=100,
            queue_us=400,
            served_us=500,
            pending_us=0,
        ),
        "use": Use(
            in_flight_fraction=0.9,
            busy_fraction=0.8,
            parallelism=1.0,
            parallelism_max=1,
            full_share=1.0,
            waited_full_share=0.9,
            waited_serving_share=0.9,
        ),
        "cpu": Cpu(
            on_share=1.0,
            run_queue_share=0.0,
            off_share=0.0,
            off_uncrowded_ratio=None,
            off_uncrowded_whole_ratio=None,
            off_first_ratio=None,
            cpus_used=1.0,
            gil_share=0.0,
        ),
    }
    own = {name: value for name, value in changes.items() if "." not in name}
    for name, value in changes.items():
        part, _, field = name.rpartition(".")
        if part:
            parts[part] = dataclasses.replace(parts[part], **{field: value})
    base = {
        "server": "worker1",
        "rank": 1,
        "threads": 1,
        "threads_seen": 1,
        "calls": 100,
        "served_calls": 100,
        "nested_share": 0.0,
        "operator_parallelism": None,
        "host_cpus_used": None,
        "cpu_count": 8,
    }
    fields: dict[str, Any] = {**base, **parts, **own}
    return Evidence(**fields)
