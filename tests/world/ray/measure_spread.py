"""Run on the first host of a cluster: measures and traces one world on two hosts."""

import json
import sys
from dataclasses import replace
from pathlib import Path

from tests.fakes import order
from tuner.plan.launching import read_launching
from tuner.world.launcher import TraceOrder
from tuner.world.measurement import Measurement
from tuner.world.ray.ray_launcher import RayLauncher

WORKLOAD = f"{Path(__file__).with_name('spread.py')}:Payload"


def main(address: str, folder: Path) -> None:
    keys = {"launcher": "ray", "ray_address": address, "place": {"caller": 1, "server": 1}}
    launching, mistakes = read_launching(keys)
    assert not mistakes
    with RayLauncher(launching) as launcher:
        spec = launcher.describe(WORKLOAD, {"told": str(folder / "told.json")})
        timed = launcher.run(order(spec, steps=20))
        assert isinstance(timed, Measurement), timed
        trace = TraceOrder(path=folder / "trace.json", operators=False)
        traced = launcher.run(replace(order(spec, steps=20), trace=trace))
        assert isinstance(traced, Measurement), traced
    (folder / "timed.json").write_text(timed.model_dump_json())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
    print(json.dumps("done"))
