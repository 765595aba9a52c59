import math
from itertools import product

import pytest

from tests.plan.specs import for_all, threads, workload_spec
from tuner.decide.importance import main_effects, varying
from tuner.plan.settings import Dimension, Settings

SPEC = workload_spec()
THREADS = Dimension("*", "num_worker_threads")
TRANSPORTS = Dimension("*", "transports")


def grid(step_ms: dict[tuple[int, str], float]) -> list[tuple[Settings, float]]:
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


def test_settings_without_a_value_are_left_out() -> None:
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


def test_what_settings_do_not_name_is_the_default() -> None:
    assert threads(4).value_of(TRANSPORTS, SPEC) is None
    assert for_all(transports="shm").value_of(THREADS, SPEC) == 16
    intra = Dimension("*", "intra_op_threads")
    assert threads(4).value_of(intra, workload_spec(intra_op_threads=3)) == 3
    role = Dimension("server", "num_worker_threads")
    assert threads(4).value_of(role, SPEC) == 4


def test_values_of_a_dimension_are_in_order_of_number_or_appearance() -> None:
    settings = [
        for_all(num_worker_threads=8, transports="uv"),
        threads(2),
        for_all(num_worker_threads=16, transports="shm"),
    ]
    assert varying(settings, SPEC) == {
        THREADS: (2, 8, 16),
        TRANSPORTS: (("uv",), None, ("shm",)),
    }


def test_a_dimension_that_is_named_but_always_the_same_does_not_vary() -> None:
    # 16 is PyTorch's default, so naming it makes no difference.
    settings = [threads(16), for_all(transports="shm")]
    assert list(varying(settings, SPEC)) == [TRANSPORTS]


def test_what_each_role_has_of_its_own_does_not_vary_for_all() -> None:
    own = Settings.from_json(
        {"caller": {"num_worker_threads": 1}, "server": {"num_worker_threads": 2}}
    )
    assert varying([threads(8), own], SPEC) == {
        Dimension("caller", "num_worker_threads"): (1, 8),
        Dimension("server", "num_worker_threads"): (2, 8),
    }
    # Here it is what the caller has.
    server = Settings.from_json({"server": {"num_worker_threads": 2}})
    assert list(varying([threads(8), server], SPEC)) == [
        THREADS, Dimension("server", "num_worker_threads"),
    ]  # fmt: skip
