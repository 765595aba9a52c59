import math

import pytest

from tuner.decide.importance import variance_shares

LOGS = [math.log(value) for value in (8.0, 8.0, 4.0, 4.0)]


def test_a_factor_that_alone_matters_explains_everything() -> None:
    factors = {"other": ["a", "b", "a", "b"], "threads": ["1", "1", "2", "2"]}
    shares = variance_shares(factors, LOGS)
    assert shares == pytest.approx({"threads": 1.0, "other": 0.0})
    assert list(shares) == ["threads", "other"]


def test_a_factor_with_one_level_explains_nothing() -> None:
    assert variance_shares({"threads": [1, 1, 1, 1]}, LOGS) == {"threads": 0.0}


def test_where_no_value_differs_nothing_is_explained() -> None:
    assert variance_shares({"threads": [1, 2]}, [0.5, 0.5]) == {"threads": 0.0}
    assert variance_shares({}, []) == {}
