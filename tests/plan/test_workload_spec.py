import pytest
from pydantic import ValidationError

from tests.plan.specs import workload_spec
from tuner.plan.workload_spec import WorkloadSpec


def test_roles_are_in_order_of_first_rank_each_once() -> None:
    spec = workload_spec("agent", "observer", "observer", "agent", "logger")
    assert spec.roles == ("agent", "observer", "logger")


def test_a_spec_crosses_processes_as_json() -> None:
    spec = workload_spec(cuda_devices=2)
    assert WorkloadSpec.model_validate_json(spec.model_dump_json()) == spec


def test_option_values_keep_their_types() -> None:
    options: dict[str, bool | int | float | str] = {"a": True, "b": 1, "c": 1.0, "d": "1"}
    spec = workload_spec().model_copy(update={"options": options})
    again = WorkloadSpec.model_validate_json(spec.model_dump_json()).options
    assert {name: type(value) for name, value in again.items()} == {
        "a": bool,
        "b": int,
        "c": float,
        "d": str,
    }


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="extra_forbidden"):
        WorkloadSpec.model_validate({**workload_spec().model_dump(), "gpus": 1})
