import json

import pytest

from testing.specs import assert_refused, for_all, threads, workload_spec
from tuner.plan.config import Config, Dimension, varying

SPEC = workload_spec()
THREADS = Dimension("*", "num_worker_threads")
TRANSPORTS = Dimension("*", "transports")


def test_a_dimension_is_a_knob_for_all_roles_or_for_one() -> None:
    assert Dimension.parse("num_worker_threads") == THREADS
    assert Dimension.parse("*.num_worker_threads") == THREADS
    assert Dimension.parse(" agent.transports ") == Dimension("agent", "transports")
    assert str(Dimension.parse("agent.transports")) == "agent.transports"
    told = "unknown knob 'num_worker_thread'; did you mean num_worker_threads?"
    assert_refused(Dimension.parse, ["num_worker_thread"], told)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "config must be an object by role, got []"),
        ({"*": 8}, "config of role '*' must be an object, got 8"),
        ({"*": {"num_worker_threads": 0}}, "num_worker_threads must be at least 1, got 0"),
        ({"*": {"transports ": "shm"}}, "unknown knob 'transports '; did you mean transports?"),
    ],
)
def test_json_that_is_not_a_config_is_refused(document: object, message: str) -> None:
    assert_refused(Config.from_json, [document], message)


def test_configs_that_act_alike_are_resolved_alike() -> None:
    spec = workload_spec(intra_op_threads=2)
    written_out = for_all(num_worker_threads=16, intra_op_threads=2, transports="default")
    assert Config.of({}).resolved(spec) == written_out.resolved(spec)
    by_role = {"caller": {"num_worker_threads": 4}, "server": {"num_worker_threads": 4}}
    assert Config.from_json(by_role).resolved(spec) == threads(4).resolved(spec)
    assert threads(4).resolved(spec) != threads(8).resolved(spec)


def test_a_bound_rank_has_no_more_intra_op_threads_than_cpus_unless_it_is_named() -> None:
    threads_of = Dimension("server", "intra_op_threads")
    spec = workload_spec(intra_op_threads=4)
    small = spec.model_copy(update={"cpus_of_rank": 2})
    bound = for_all(cpu_binding="equal")
    assert bound.value_of(threads_of, spec) == 4
    assert bound.value_of(threads_of, small) == 2
    assert for_all(cpu_binding="none").value_of(threads_of, small) == 4
    named = for_all(cpu_binding="equal", intra_op_threads=3)
    assert named.value_of(threads_of, small) == 3
    assert bound.resolved(small) == for_all(cpu_binding="equal", intra_op_threads=2).resolved(small)


def test_a_process_is_not_told_the_intra_op_threads_that_it_has_by_itself() -> None:
    spec = workload_spec(intra_op_threads=2)
    both = {"num_worker_threads": 4, "intra_op_threads": 2}
    assert for_all(**both).without_own(spec) == threads(4)
    other = Config.from_json({"*": both, "server": {"intra_op_threads": 1}})
    assert other.without_own(spec) == other
    assert threads(4).without_own(spec) == threads(4)


def test_a_config_reads_as_a_person_would_type_it() -> None:
    values = {"*": {"num_worker_threads": 8}, "agent": {"transports": ["shm", "uv"]}}
    config = Config.from_json(values)
    assert str(config) == "num_worker_threads=8 agent.transports=shm+uv"
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert config.slug == "num_worker_threads=8-agent.transports=shm+uv"
    assert Config.from_json({"a/b :*": {"rpc_timeout": 5}}).slug == "a-b-.rpc_timeout=5"
    assert str(Config.of({})) == Config.of({}).slug == "defaults"


def test_long_slugs_that_begin_alike_are_told_apart() -> None:
    def with_last(count: int) -> Config:
        roles = {f"role{n}": {"num_worker_threads": 1} for n in range(9)}
        return Config.from_json({**roles, "role9": {"num_worker_threads": count}})

    assert with_last(1).slug[:90] == with_last(2).slug[:90]
    assert with_last(1).slug != with_last(2).slug
    assert len(with_last(1).slug) < 100


def test_what_varies_is_in_order_of_number_or_appearance() -> None:
    first, last = for_all(num_worker_threads=8, transports="uv"), for_all(transports="shm")
    both = {THREADS: (2, 8, 16), TRANSPORTS: (("uv",), None, ("shm",))}
    assert varying([first, threads(2), last], SPEC) == both
    # 16 is PyTorch's default, so naming it makes no difference.
    assert list(varying([threads(16), last], SPEC)) == [TRANSPORTS]


def test_what_each_role_has_of_its_own_does_not_vary_for_all() -> None:
    roles = {"caller": {"num_worker_threads": 1}, "server": {"num_worker_threads": 2}}
    own = Config.from_json(roles)
    assert varying([threads(8), own], SPEC) == {
        Dimension("caller", "num_worker_threads"): (1, 8),
        Dimension("server", "num_worker_threads"): (2, 8),
    }
    # Here it is what the caller has.
    server = Config.from_json({"server": {"num_worker_threads": 2}})
    of_server = Dimension("server", "num_worker_threads")
    assert list(varying([threads(8), server], SPEC)) == [THREADS, of_server]


def test_bound_ranks_are_told_a_number_that_they_would_have_unbound() -> None:
    spec = workload_spec(intra_op_threads=2)
    bound = for_all(cpu_binding="equal", intra_op_threads=2)
    assert bound.without_own(spec) == bound
