"""Run on the first host of a cluster: measures worlds on its hosts, by the name of a function."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import tuner
from testing.fakes import order
from testing.outcomes import measured
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.plan.launching import read_launching
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.world.launcher import TraceOrder, WorldOrder
from tuner.world.launchers import launcher_for
from tuner.world.measurement import Failure, Measurement
from tuner.world.ray.ray_launcher import RayLauncher

MEGABYTES = Path(__file__).with_name("megabytes.py")


def spread(address: str, folder: Path) -> None:
    """Measures and traces one world on two hosts."""
    keys = {"launcher": "ray", "ray_address": address, "place": {"caller": 1, "server": 1}}
    launching, mistakes = read_launching(keys)
    assert not mistakes
    with RayLauncher(launching) as launcher:
        spec = launcher.describe(f"{MEGABYTES}:Megabytes", {"notes": str(folder / "notes")})
        timed = measured(launcher.run(order(spec, steps=20))).model_dump_json()
        trace = TraceOrder(path=folder / "trace.json", operators=False)
        measured(launcher.run(replace(order(spec, steps=20), trace=trace)))
    (folder / "timed.json").write_text(timed)


def groups(address: str, folder: Path) -> None:
    """Searches with a group on each of two hosts."""
    answer = tuner.tune(
        "udf", launcher="ray", ray_address=address, groups=2, space={"num_worker_threads": [2, 4]},
        baseline={"num_worker_threads": 2}, max_blocks=6, budget="150s", min_time="20ms",
        epsilon="0.1%", out=folder / "study",
    )  # fmt: skip
    store = load_study(StudyPlace.named("udf", out=folder / "study"))
    race = [record for record in store.records() if record.phase == "race"]
    of_blocks = [sorted({r.group or 0 for r in race if r.block == each.block}) for each in race]
    names = [group.name for group in answer.environment.groups]
    told = [[row.failure for row in answer.rows], answer.blocks, of_blocks, names]
    (folder / "told.json").write_text(json.dumps(told))


def program(address: str, folder: Path, how: str, more: str, *command: str) -> None:
    """Runs a program on all hosts: it `fails`, or goes well, once, or `traced` too. More keys of
    its plan are JSON."""
    keys = {"programs": [[*command]], "launcher": "ray", "ray_address": address, "deadline": "120s"}
    draft = draft_plan({**keys, **json.loads(more)})
    assert not draft.problems
    printed: list[bytes] = []
    with launcher_for(draft, notify=lambda sentence: None, show=printed.append) as launcher:
        one = WorldOrder(
            subject=draft.finish(launcher.subject_of(draft)).subject,
            config=Config.from_json({"*": {"num_worker_threads": 2, "cpu_binding": "equal"}}),
            deadline_s=120.0,
        )
        timed = launcher.run(one)
        assert isinstance(timed, Failure if how == "fails" else Measurement), timed
        if how == "traced":
            trace = TraceOrder(path=folder / "trace.json", operators=False)
            measured(launcher.run(replace(one, trace=trace)))
    (folder / "printed").write_bytes(b"".join(printed))
    (folder / "timed.json").write_text(timed.model_dump_json())


if __name__ == "__main__":
    name, address, folder, *more = sys.argv[1:]
    globals()[name](address, Path(folder), *more)
