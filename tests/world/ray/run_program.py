"""Run on the first host of a cluster: runs a program on all of its hosts, once, or traced too."""

import argparse
from dataclasses import replace
from pathlib import Path

from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.world.launcher import TraceOrder, WorldOrder
from tuner.world.launchers import launcher_for
from tuner.world.measurement import Failure, Measurement


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--interface")
    parser.add_argument("--traced", action="store_true")
    parser.add_argument("--fails", action="store_true")
    parser.add_argument("program", nargs="+")
    given = parser.parse_args()
    keys = {"programs": [given.program], "launcher": "ray", "ray_address": given.address,
            "interface": given.interface, "deadline": "120s"}  # fmt: skip
    draft = draft_plan({key: value for key, value in keys.items() if value is not None})
    assert not draft.problems
    printed: list[bytes] = []
    with launcher_for(draft, notify=lambda sentence: None, show=printed.append) as launcher:
        spec = draft.finish(launcher.subject_of(draft)).subject
        order = WorldOrder(
            subject=spec,
            config=Config.from_json({"*": {"num_worker_threads": 2, "cpu_binding": "equal"}}),
            seed=0,
            steps=None,
            min_time_s=0.1,
            deadline_s=120.0,
        )
        timed = launcher.run(order)
        assert isinstance(timed, Failure if given.fails else Measurement), timed
        if given.traced:
            trace = TraceOrder(path=given.folder / "trace.json", operators=False)
            traced = launcher.run(replace(order, trace=trace))
            assert isinstance(traced, Measurement), traced
    (given.folder / "printed").write_bytes(b"".join(printed))
    (given.folder / "timed.json").write_text(timed.model_dump_json())


if __name__ == "__main__":
    main()
