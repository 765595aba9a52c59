"""The picture that explains the whole has its texts apart, and says what the README says."""

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from tests.pictures.overview import SIZE, draw_overview
from tests.readme import PROGRAM, README, program_ratios, shortened, with_output
from tuner.present.figures.kit.canvas import styled_figure

SHOWN = README.read_text()
PAGE = (README.parent / "docs" / "your-own-program.md").read_text()


def test_no_text_overlaps_another_or_leaves_the_picture() -> None:
    with styled_figure(SIZE) as figure:
        draw_overview(program_ratios(SHOWN), figure)
        FigureCanvasAgg(figure)
        figure.draw_without_rendering()
        texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
        boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
        whole = figure.bbox
    assert len(boxes) > 20
    for place, (name, box) in enumerate(boxes):
        assert box.x0 >= whole.x0, name
        assert box.x1 <= whole.x1, name
        for other_name, other in boxes[place + 1 :]:
            assert not box.overlaps(other), (name, other_name)


def test_the_readme_shows_a_program_of_ones_own_first() -> None:
    found = PROGRAM.findall(SHOWN)
    assert [module for _, module, _ in found] == ["record", "search", "run"]
    assert SHOWN.index("$ python -m tuner.record") < SHOWN.index("--workload udf")
    first_screen = "\n".join(SHOWN.splitlines()[:20])
    assert "make search" in first_screen
    assert "make test" in first_screen


def test_what_is_shown_of_an_output_is_what_would_be_kept_of_it() -> None:
    for _, module, output in PROGRAM.findall(SHOWN):
        assert shortened(module, output) == output


def test_what_torch_warns_of_is_not_shown() -> None:
    warning = "/somewhere/torch/c10d.py:3500:\nUserWarning: deprecated\n"
    assert shortened("record", f"{warning}total: 9\nRecorded by rpc-tuner: 2 ranks.\n\nOther") == (
        "Recorded by rpc-tuner: 2 ranks."
    )
    run = f"rpc-tuner: client has num_worker_threads=16\n{warning}total: 9"
    assert shortened("run", run) == "rpc-tuner: client has num_worker_threads=16\ntotal: 9"


def test_the_ratios_are_those_of_the_table() -> None:
    ratios = program_ratios(SHOWN)
    assert len(ratios) > 2
    assert all(low <= estimate <= high for _, estimate, low, high in ratios)
    assert ratios[0][1] == max(ratio[1] for ratio in ratios)


def test_the_page_of_programs_shows_the_same_outputs() -> None:
    for _, _, output in PROGRAM.findall(SHOWN):
        assert all(paragraph in PAGE for paragraph in output.split("\n\n"))


def test_an_output_is_replaced_paragraph_by_paragraph() -> None:
    assert with_output("a 1\n\nkept\n\nb 2\n", "a 1\n\nb 2", "a 3\n\nb 4") == "a 3\n\nkept\n\nb 4\n"
