import pytest

from tuner.present.text_table import Column, shortened_names, text_table

COLUMNS = [
    Column("cpu_binding", ["equal", "none"], is_name=True),
    Column("num_worker_threads", ["8", "16"]),
    Column("step (ms)", ["2.1", ""]),
]


def test_headings_are_folded_at_their_words_where_there_is_no_room() -> None:
    assert text_table(COLUMNS, 42) == [
        "cpu_binding  num_worker_threads  step (ms)",
        "──────────────────────────────────────────",
        "equal                         8        2.1",
        "none                         16",
    ]
    assert text_table(COLUMNS, 41) == [
        "             num_worker_",
        "cpu_binding      threads  step (ms)",
        "───────────────────────────────────",
        "equal                  8        2.1",
        "none                  16",
    ]
    assert text_table(COLUMNS, 29)[:2] == [
        "cpu_     num_worker_  step",
        "binding      threads  (ms)",
    ]


@pytest.mark.parametrize("width", [10, 30, 40, 80])
def test_no_number_is_cut_and_no_heading_has_three_lines(width: int) -> None:
    lines = text_table([Column("a_b_c_d_e", ["1,234.5678"] * 2) for _ in range(4)], width)
    assert [line.count("1,234.5678") for line in lines[-2:]] == [4, 4]
    assert len(lines) <= 5


def test_long_names_are_shortened_in_the_middle_and_stay_different() -> None:
    names = [f"rpc_async#step_of_the_optimizer(trainer -> {to})" for to in ("ps", "trainer")]
    short = shortened_names(names, 24)
    assert [len(name) for name in short] == [24, 24]
    assert len({*short}) == 2
    beginnings = [f"{word}{'x' * 40}" for word in ("alpha", "beta")]
    assert len({*shortened_names(beginnings, 14)}) == 2
    assert shortened_names(["short", "also"], 14) == ["short", "also"]
    middles = [f"{'x' * 30}{n}{'y' * 30}" for n in range(2)]
    assert shortened_names(middles, 14) == middles


def test_what_is_wide_counts_by_its_columns() -> None:
    (*_, first, second) = text_table(
        [Column("é", ["日本", "a"], True), Column("n", ["1", "22"])], 80
    )
    assert (first, second) == ("日本   1", "a     22")
