"""Programs that might as well have been traced: the same calls, which take other times."""

from collections import defaultdict
from dataclasses import replace

import numpy as np

from tuner.trace.forecast.program import ISSUE, Program

SHAKE = 0.5  # the standard deviation of log(time) in a program whose calls take other times


def with_other_times(program: Program, random: np.random.Generator) -> Program:
    """The program with calls that take longer, or shorter, each by a factor of its own."""
    factors = np.exp(SHAKE * random.standard_normal(len(program.calls))).tolist()
    calls = [
        replace(
            call,
            to_server=call.to_server * factor,
            ops=[(kind, value * factor if kind < ISSUE else value) for kind, value in call.ops],
        )
        for call, factor in zip(program.calls, factors, strict=True)
    ]
    return replace(program, calls=calls)


def resampled(program: Program, random: np.random.Generator) -> Program:
    """The program with what its calls do drawn anew, of the same function on the same server."""
    groups = defaultdict[tuple[str, int, int], list[int]](list)
    for place, call in enumerate(program.calls):
        makes_none = not call.then and all(kind < ISSUE for kind, _ in call.ops)
        if call.is_seen and call.join < 0 and makes_none:
            groups[call.function, call.server, call.client].append(place)
    calls = list(program.calls)
    for places in groups.values():
        for place, drawn in zip(places, random.choice(places, len(places)), strict=True):
            own = program.calls[place]
            calls[place] = replace(
                program.calls[drawn], is_blocking=own.is_blocking, callback=own.callback,
                ends=own.ends,
            )  # fmt: skip
    return replace(program, calls=calls)
