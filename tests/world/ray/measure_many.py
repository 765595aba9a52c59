"""Run on the first host of a cluster: measures one world of 64 ranks on its hosts."""

import sys
from pathlib import Path

from tests.fakes import order
from tuner.plan.launching import Launching
from tuner.world.measurement import Measurement
from tuner.world.ray.ray_launcher import RayLauncher

WORKLOAD = f"{Path(__file__).with_name('spread.py')}:Ring"


def main(address: str, folder: Path) -> None:
    with RayLauncher(Launching(launcher="ray", ray_address=address)) as launcher:
        spec = launcher.describe(WORKLOAD, {})
        assert len(spec.ranks) == 64
        outcome = launcher.run(order(spec, steps=2, deadline_s=180.0, transports=["uv"]))
    assert isinstance(outcome, Measurement), outcome
    (folder / "many.json").write_text(outcome.model_dump_json())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
