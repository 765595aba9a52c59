import pytest

from tuner.plan.workload_spec import study_name_of


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
