"""The analyze command, from its flags to its exit code."""

import gzip
import json
from pathlib import Path

import pytest

from testing.fakes import fake_trace
from testing.golden_files import KINETO
from testing.specs import threads
from tests.commands.running import printed_by
from tuner import analyze

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


@pytest.fixture
def ours(here: Path) -> Path:
    """A trace of ours: 3 steps of 2 calls on 2 threads."""
    path = here / "ours.json"
    path.write_bytes(fake_trace(threads(2), step_s=0.002, steps=3))
    return path


def test_without_a_picture_neither_torch_nor_matplotlib_is_imported(ours: Path) -> None:
    code = f"assert tuner.__main__.main(['analyze', {str(ours)!r}, '--no-timeline']) == 0"
    imported = printed_by(code).stdout.splitlines()[-1]
    assert not any(each in imported for each in ("torch", "matplotlib", "optuna"))


def test_the_tables_are_printed_and_the_picture_is_drawn_here(
    ours: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert analyze.main([str(ours)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("No clear limit: the trace holds only 6 calls that ended.\n")
    assert "\nudf(worker0 -> worker1) " in out
    assert "\nRecorded by rpc-tuner: 2 ranks (worker0, worker1), 3 steps, 6 calls" in out
    assert out.endswith("\nTimeline: ours.timeline.png\n")
    assert err == ""
    assert (here / "ours.timeline.png").read_bytes().startswith(b"\x89PNG")


def test_a_compressed_trace_has_a_document_with_every_row(
    ours: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "packed.json.gz").write_bytes(gzip.compress(ours.read_bytes()))
    assert analyze.main(["packed.json.gz", "--json", "--row-limit", "1"]) == 0
    # NaN is no JSON.
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (found["source"], found["timeline"]) == ("rpc-tuner", "packed.timeline.png")
    assert len(found["thread_use"]) == 2
    assert (here / "packed.timeline.png").exists()


def test_ranks_of_one_run_are_one_trace(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert analyze.main([*map(str, KINETO), "--timeline", "new/both.svg"]) == 0
    assert "Recorded by torch.profiler (Kineto): 2 ranks" in capsys.readouterr().out
    assert ">kineto_rank0.json and 1 more<" in (here / "new" / "both.svg").read_text()
    assert [each.name for each in here.iterdir()] == ["new"]


def test_a_picture_that_cannot_be_written_is_an_error_if_it_was_asked_for(
    ours: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named, usual = str(ours / "picture.png"), "ours.timeline.png"
    (here / usual).mkdir()
    for flags, code, told in (
        (["--timeline", named], 2, f"rpc-tuner: cannot write the timeline {named}: "),
        ([], 0, f"note: cannot write the timeline {usual}: "),
    ):
        assert analyze.main([str(ours), *flags]) == code
        out, err = capsys.readouterr()
        assert "\nudf(worker0 -> worker1) " in out
        assert "Timeline:" not in out
        assert err.startswith(told)
    assert {each.name for each in here.iterdir()} == {ours.name, usual}


def test_a_trace_without_anything_to_draw_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    Path("idle.json").write_bytes(fake_trace(threads(2), step_s=0.002, steps=0))
    assert analyze.main(["idle.json"]) == 0
    out, err = capsys.readouterr()
    assert err == "note: there is no timeline to draw: no calls and no operators\n"
    assert out.startswith("No clear limit: the trace holds no calls.\n")
    assert analyze.main(["idle.json", "--timeline", "idle.png"]) == 2


def test_tables_are_asked_for_by_name_with_as_many_rows_as_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = [str(KINETO[0]), "--no-timeline", "--table", "recipe", "--row-limit", "3"]
    assert analyze.main(asked) == 0
    text = capsys.readouterr().out
    assert text.startswith("Time by call and by operator\n")
    assert "3 of 5 rows; --row-limit 0 shows all" in text
    assert analyze.main([*asked[:-1], "0"]) == 0
    assert " rows; " not in capsys.readouterr().out
    assert analyze.main([str(KINETO[0]), "--no-timeline", "--all"]) == 0
    assert "\nTime by call and by operator\n" in capsys.readouterr().out
    assert analyze.main([str(KINETO[0]), "--table", "recipee"]) == 2
    assert "there is no table 'recipee'; did you mean recipe?" in capsys.readouterr().err


def test_what_other_values_would_do_is_forecast(
    ours: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--no-timeline", "--what-if", "num_worker_threads=1,2", "--json"]
    assert analyze.main([str(ours), *asked]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["what_if"]
    assert [each["config"]["*"]["num_worker_threads"] for each in found] == [1, 2]
    assert analyze.main(["missing.json", "--what-if", "num_worker_treads=1"]) == 2
    assert "did you mean num_worker_threads" in capsys.readouterr().err
