"""Run on the first host of a cluster: searches with a group on each of two hosts."""

import json
import sys
from pathlib import Path

import tuner
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study


def main(address: str, folder: Path) -> None:
    answer = tuner.tune(
        "udf", launcher="ray", ray_address=address, groups=2, space={"num_worker_threads": [2, 4]},
        baseline={"num_worker_threads": 2}, max_blocks=6, budget="150s", min_time="20ms",
        epsilon="0.1%", out=folder / "study",
    ).answer  # fmt: skip
    store = load_study(StudyPlace.named("udf", out=folder / "study"))
    race = [each for each in store.records() if each.phase == "race"]
    groups = [sorted({r.group for r in race if r.block == each.block}) for each in race]  # type: ignore[type-var]
    told = {
        "failures": [row.failure for row in answer.rows],
        "blocks": answer.blocks,
        "groups": groups,
        "names": [each.name for each in answer.environment.groups],
    }
    (folder / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
