import pytest

from tests.plan.specs import workload_spec
from tuner.plan.workload_spec import study_name_of


def test_roles_are_in_order_of_first_rank_each_once() -> None:
    spec = workload_spec("agent", "observer", "observer", "agent", "logger")
    assert spec.roles == ("agent", "observer", "logger")


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("udf", "udf"),
        ("my/file.py:Echo", "file.Echo"),
        ("nested.py:Nested", "nested.Nested"),
        ("package.module:MyLoad", "package.module.MyLoad"),
        ("my files/a b.py:Echo", "a-b.Echo"),
    ],
)
def test_the_default_study_name(reference: str, name: str) -> None:
    assert study_name_of(reference) == name
