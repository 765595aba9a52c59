"""The server is not the limit: the caller is, or the way to the server and back."""

from tuner.text import whole_percent
from tuner.trace.analyze.evidence import Evidence
from tuner.trace.analyze.rules.thresholds import IDLE, MOST, QUEUED
from tuner.trace.analyze.rules.wording import short_time, subject

SERVED_LITTLE = 0.3
"""Calls that are served for less of their latency than this spend it elsewhere."""


def caller_or_wire(found: Evidence) -> tuple[str, ...]:
    """What the rule says; empty if it does not fit."""
    means, use = found.means, found.use
    served_little = means.served_share < SERVED_LITTLE and means.queue_share < QUEUED
    pending = means.pending_us >= MOST * means.latency_us
    if pending or (use.busy_fraction >= IDLE and not served_little):
        return ()
    # A wait while a thread was free counts as part of the way.
    way_us = means.transport_us + means.queue_us * (1 - use.waited_full_share)
    way_share = way_us / means.latency_us
    if use.in_flight_fraction < MOST:
        limit = "The caller is the limit"
    elif way_share >= MOST:
        limit = "The wire is the limit"
    else:
        limit = "The caller or the wire is the limit"
    return (
        f"{limit}: {subject(found)} was busy for {whole_percent(use.busy_fraction)} of the time, "
        f"and a call to it was under way for {whole_percent(use.in_flight_fraction)}.",
        f"Of a call's {short_time(means.latency_us)}, {short_time(way_us)} "
        f"({whole_percent(way_share)}) were the way to the server and back: pickling, transport, "
        "waking a thread.",
    )
