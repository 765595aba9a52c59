"""The analyze command, from its flags to its exit code."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import fake_trace
from tests.plan.specs import threads
from tests.trace.golden_files import KINETO, NATIVE
from tuner import analyze

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command writes where it is started."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ours(folder: Path) -> Path:
    """A trace of ours: 3 steps of 2 calls on 2 threads."""
    path = folder / "ours.json"
    path.write_bytes(fake_trace(threads(2), step_s=0.002, steps=3))
    return path


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The JSON on stdout; NaN is no JSON."""
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert isinstance(found, dict)
    return found


def test_help_and_bad_usage_import_none_of_the_slow_packages() -> None:
    script = (
        "import sys; from tuner.analyze import main\n"
        "assert main(['--help']) == 0 and main(['x', '--timeline', 'x.pdf']) == 2\n"
        "print('MODULES', *sorted(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    modules = set(done.stdout.rpartition("MODULES")[2].split())
    assert "typer" in modules
    assert modules.isdisjoint({"torch", "matplotlib", "pandas", "numpy"})


def test_without_a_picture_neither_torch_nor_matplotlib_is_imported(ours: Path) -> None:
    script = (
        "import sys; from tuner.analyze import main\n"
        f"assert main([{str(ours)!r}, '--no-timeline']) == 0\n"
        "assert not {'torch', 'matplotlib', 'optuna'} & {*sys.modules}\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, capture_output=True)


def test_the_tables_are_printed_and_the_picture_is_drawn_here(
    ours: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert analyze.main([str(ours)]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Recorded by rpc-tuner: 2 ranks (worker0, worker1) for 6 ms")
    assert "rpc_async#udf(worker0 -> worker1)" in captured.out
    assert captured.out.endswith("\nTimeline: ours.timeline.png\n")
    assert captured.err == ""
    assert (folder / "ours.timeline.png").read_bytes().startswith(PNG)


def test_a_compressed_trace_has_a_document_with_every_row(
    ours: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = folder / "packed.json.gz"
    packed.write_bytes(gzip.compress(ours.read_bytes()))
    assert analyze.main([str(packed), "--json", "--row-limit", "1"]) == 0
    found = document(capsys)
    assert (found["source"], found["timeline"]) == ("rpc-tuner", "packed.timeline.png")
    assert len(found["thread_use"]) == 2
    assert (folder / "packed.timeline.png").exists()


def test_ranks_of_one_run_are_one_trace(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert analyze.main([str(path) for path in KINETO] + ["--timeline", "new/both.svg"]) == 0
    assert "Recorded by torch.profiler (Kineto): 2 ranks" in capsys.readouterr().out
    assert ">kineto_rank0.json and 1 more<" in (folder / "new" / "both.svg").read_text()
    assert [each.name for each in folder.iterdir()] == ["new"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.json"], "absent.json: there is no such file"),
        ([str(KINETO[0]), str(NATIVE)], f"these traces do not belong together: {NATIVE} is from "
         "rpc-tuner, which writes all ranks to one file: read it alone"),
        (["ours.json", "--timeline", "picture.pdf"],
         "--timeline takes a file that ends in .png or .svg, got picture.pdf"),
        (["ours.json", "--timeline", "picture.svg", "--no-timeline"],
         "--timeline and --no-timeline exclude each other"),
    ],
)  # fmt: skip
def test_bad_usage_is_one_sentence_and_exit_code_2(
    arguments: list[str], message: str, ours: Path, folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert analyze.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err == f"rpc-tuner: {message}\n"
    assert captured.out == ""
    assert list(folder.iterdir()) == [ours]


def test_a_picture_that_cannot_be_written_is_an_error_after_the_tables(
    ours: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert analyze.main([str(ours), "--timeline", str(ours / "picture.png")]) == 2
    captured = capsys.readouterr()
    assert "rpc_async#udf(worker0 -> worker1)" in captured.out
    assert "Timeline:" not in captured.out
    assert captured.err.startswith(f"rpc-tuner: cannot write the timeline {ours / 'picture.png'}: ")
    assert list(folder.iterdir()) == [ours]


def test_a_default_picture_that_cannot_be_written_does_not_fail_the_command(
    ours: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ours.timeline.png").mkdir()
    assert analyze.main([str(ours)]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("note: cannot write the timeline ours.timeline.png: ")
    assert captured.out.startswith("Recorded by rpc-tuner")


def test_a_trace_without_anything_to_draw_is_told_of(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "idle.json").write_bytes(fake_trace(threads(2), step_s=0.002, steps=0))
    assert analyze.main(["idle.json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == (
        "note: there is no timeline to draw: no served calls and no operators\n"
    )
    assert captured.out.endswith("\n\nNo clear limit: the trace holds no calls.\n")
    assert analyze.main(["idle.json", "--timeline", "idle.png"]) == 2


@pytest.mark.parametrize(("limit", "cut"), [("3", True), ("0", False), ("5", False)])
def test_tables_have_as_many_rows_as_allowed(
    limit: str, cut: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert analyze.main([str(KINETO[0]), "--no-timeline", "--row-limit", limit]) == 0
    text = capsys.readouterr().out
    assert ("3 of 5 rows; --row-limit shows more" in text) == cut
    assert ("to_here#(trainer)->(ps) " in text.partition("Latency")[0]) != cut
