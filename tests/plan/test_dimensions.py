from tests.plan.specs import for_all, threads, workload_spec
from tuner.plan.config import Config, Dimension
from tuner.plan.dimensions import varying

SPEC = workload_spec()
THREADS = Dimension("*", "num_worker_threads")
TRANSPORTS = Dimension("*", "transports")


def test_what_configs_do_not_name_is_the_default() -> None:
    assert threads(4).value_of(TRANSPORTS, SPEC) is None
    assert for_all(transports="shm").value_of(THREADS, SPEC) == 16
    intra = Dimension("*", "intra_op_threads")
    assert threads(4).value_of(intra, workload_spec(intra_op_threads=3)) == 3
    role = Dimension("server", "num_worker_threads")
    assert threads(4).value_of(role, SPEC) == 4


def test_values_of_a_dimension_are_in_order_of_number_or_appearance() -> None:
    configs = [
        for_all(num_worker_threads=8, transports="uv"),
        threads(2),
        for_all(num_worker_threads=16, transports="shm"),
    ]
    assert varying(configs, SPEC) == {
        THREADS: (2, 8, 16),
        TRANSPORTS: (("uv",), None, ("shm",)),
    }


def test_a_dimension_that_is_named_but_always_the_same_does_not_vary() -> None:
    # 16 is PyTorch's default, so naming it makes no difference.
    configs = [threads(16), for_all(transports="shm")]
    assert list(varying(configs, SPEC)) == [TRANSPORTS]


def test_what_each_role_has_of_its_own_does_not_vary_for_all() -> None:
    own = Config.from_json(
        {"caller": {"num_worker_threads": 1}, "server": {"num_worker_threads": 2}}
    )
    assert varying([threads(8), own], SPEC) == {
        Dimension("caller", "num_worker_threads"): (1, 8),
        Dimension("server", "num_worker_threads"): (2, 8),
    }
    # Here it is what the caller has.
    server = Config.from_json({"server": {"num_worker_threads": 2}})
    assert list(varying([threads(8), server], SPEC)) == [
        THREADS, Dimension("server", "num_worker_threads"),
    ]  # fmt: skip
