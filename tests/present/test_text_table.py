import pytest

from tuner.present.text_table import Column, shortened_names, text_table


def test_headings_are_folded_only_where_there_is_no_room() -> None:
    columns = [Column("a_b", ["1"], is_name=True), Column("num_threads", ["8"])]
    assert text_table(columns, 16)[0] == "a_b  num_threads"
    assert text_table(columns, 15)[:2] == ["        num_", "a_b  threads"]


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
