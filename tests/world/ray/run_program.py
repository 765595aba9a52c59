"""Run on the first host of a cluster: runs a program on all of its hosts, and traces it."""

import sys
from dataclasses import replace
from pathlib import Path

from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.world.launcher import TraceOrder, WorldOrder
from tuner.world.launchers import launcher_for
from tuner.world.measurement import Measurement


def main(address: str, folder: Path) -> None:
    program = [sys.executable, str(Path(__file__).parents[2] / "programs" / "each_host.py")]
    draft = draft_plan(
        {"programs": [program], "launcher": "ray", "ray_address": address, "deadline": "60s"}
    )
    assert not draft.problems
    printed: list[bytes] = []
    with launcher_for(draft, tell=lambda sentence: None, show=printed.append) as launcher:
        spec = draft.finish(launcher.subject_of(draft)).subject
        order = WorldOrder(
            subject=spec,
            config=Config.from_json({"*": {"num_worker_threads": 2}}),
            seed=0,
            steps=None,
            min_time_s=0.1,
            deadline_s=60.0,
        )
        timed = launcher.run(order)
        assert isinstance(timed, Measurement), timed
        trace = TraceOrder(path=folder / "trace.json", operators=False)
        traced = launcher.run(replace(order, trace=trace))
        assert isinstance(traced, Measurement), traced
    (folder / "printed").write_bytes(b"".join(printed))
    (folder / "timed.json").write_text(timed.model_dump_json())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
