import math
from itertools import product

import pytest

from tests.plan.specs import for_all, threads, workload_spec
from tuner.plan.config import Config
from tuner.present.figures.importance import main_effects

SPEC = workload_spec()


def grid(step_ms: dict[tuple[int, str], float]) -> list[tuple[Config, float]]:
    return [
        (for_all(num_worker_threads=count, transports=way), value)
        for (count, way), value in step_ms.items()
    ]


def test_a_knob_that_alone_matters_explains_everything() -> None:
    values = {(n, way): float(8 / n) for n, way in product((1, 2, 4), ("shm", "uv"))}
    shares = main_effects(grid(values), SPEC)
    assert shares == pytest.approx({"num_worker_threads": 1.0, "transports": 0.0})


def test_two_knobs_that_multiply_share_the_variance() -> None:
    values = {(n, way): n * (3.0 if way == "uv" else 1.0)
              for n, way in product((1, 2), ("shm", "uv"))}  # fmt: skip
    shares = main_effects(grid(values), SPEC)
    parts = {"transports": math.log(3) ** 2, "num_worker_threads": math.log(2) ** 2}
    total = sum(parts.values())
    assert shares == pytest.approx({name: part / total for name, part in parts.items()})
    assert list(shares) == ["transports", "num_worker_threads"]


def test_what_only_both_do_together_neither_explains() -> None:
    values = {(1, "shm"): 1.0, (2, "uv"): 1.0, (1, "uv"): 2.0, (2, "shm"): 2.0}
    assert main_effects(grid(values), SPEC) == pytest.approx(
        {"num_worker_threads": 0.0, "transports": 0.0}
    )


def test_configs_without_a_value_are_left_out() -> None:
    values = {(n, way): float(8 / n) for n, way in product((1, 2), ("shm", "uv"))}
    whole = grid(values)
    holed = [*whole, (for_all(num_worker_threads=4, transports="shm"), math.nan)]
    assert main_effects(holed, SPEC) == main_effects(whole, SPEC)


def test_on_a_grid_with_holes_no_share_is_above_one() -> None:
    values = {(1, "shm"): 1.0, (2, "uv"): 2.0, (4, "uv"): 2.1}
    shares = main_effects(grid(values), SPEC)
    assert shares["num_worker_threads"] == pytest.approx(1.0)
    assert 0.9 < shares["transports"] < 1.0
    assert sum(shares.values()) > 1


def test_a_knob_with_one_value_explains_nothing_and_is_not_named() -> None:
    values = {(1, "shm"): 1.0, (2, "shm"): 2.0}
    assert main_effects(grid(values), SPEC) == {"num_worker_threads": 1.0}


def test_where_nothing_differs_nothing_is_explained() -> None:
    assert main_effects(grid({(1, "shm"): 2.0, (2, "shm"): 2.0}), SPEC) == {
        "num_worker_threads": 0.0
    }
    assert main_effects([(threads(1), 2.0)], SPEC) == {}
    assert main_effects([(threads(1), math.nan)], SPEC) == {}
    assert main_effects([], SPEC) == {}
