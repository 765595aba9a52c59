import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tuner.trace.analyze.time_spans import Spans, parents

Row = tuple[int, int, int]
"""Group, start, end."""


def rows(least_length: int = 0, most: int = 25) -> st.SearchStrategy[list[Row]]:
    row = st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(least_length, 8))
    return st.lists(row.map(lambda it: (it[0], it[1], it[1] + it[2])), max_size=most)


def spans(of: list[Row]) -> Spans:
    columns = np.array(of, np.int64).reshape(len(of), 3).T
    return Spans(*(np.ascontiguousarray(column) for column in columns))


def nested(of: list[Row]) -> list[Row]:
    """The rows, without those that cross an earlier one."""
    kept: list[Row] = []
    for group, start, end in of:
        crosses = any(
            group == other and (first < start < last < end or start < first < end < last)
            for other, first, last in kept
        )
        if not crosses:
            kept.append((group, start, end))
    return kept


@given(rows(least_length=1).map(nested))
def test_the_parent_is_the_smallest_span_around(of: list[Row]) -> None:
    for place, (found, (group, start, end)) in enumerate(zip(parents(spans(of)), of, strict=True)):
        around = [
            (last - first, -other)
            for other, (own, first, last) in enumerate(of)
            # Of equal spans, the first is around the others.
            if own == group
            and first <= start
            and end <= last
            and ((first, last) != (start, end) or other < place)
        ]
        assert found == (-min(around)[1] if around else -1)


@given(rows())
def test_a_parent_is_open_where_its_child_begins(of: list[Row]) -> None:
    for found, (group, start, end) in zip(parents(spans(of)), of, strict=True):
        if found >= 0 and end > start:
            assert of[found][0] == group
            assert of[found][1] <= start < of[found][2]
