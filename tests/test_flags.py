"""What is told of flags that may stand in the wrong place."""

from pathlib import Path

import pytest

from tuner import record, run, search
from tuner.flags import misplaced_flags

OURS = ("--help", "--budget", "--dry-run", "--for", "--out", "-o")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.py").write_text("for each in ():\n    print(each)\n")
    return tmp_path


def told(*behind: str) -> str:
    return misplaced_flags(["python", "main.py", *behind], OURS)


def test_flags_of_ours_that_a_program_gets_are_told() -> None:
    assert told("--budget", "60s", "--steps", "3") == (
        "--budget goes to main.py, as all behind -- does; if it is for rpc-tuner, put it before --"
    )
    assert told("--for=3s", "--budget", "60s").startswith("--for and --budget go to main.py, as ")
    assert told("-o", "x", "--help", "--", "--budget") == ""
    # Nothing of what is no script.
    for program in (["torchrun", "--out", "x", "main.py"], ["./main", "--out", "x"], []):
        assert misplaced_flags(program, OURS) == ""


@pytest.mark.parametrize(
    ("file", "code", "flag"),
    [
        ("main.py", 'parser.add_argument("--budget", type=int)', "--budget"),
        ("options.py", "flags.DEFINE_string('out', '', '')", "--out"),
        ("package/main.py", "def main(steps: int, dry_run: bool = False): ...", "--dry-run"),
        ("main.py", "@click.option('--dry-run')", "--dry-run"),
    ],
)
def test_what_the_program_names_is_its_own(here: Path, file: str, code: str, flag: str) -> None:
    assert told(flag)
    (here / file).parent.mkdir(exist_ok=True)
    (here / file).write_text(code)
    assert told(flag) == ""


def test_code_that_cannot_be_read_names_nothing(here: Path) -> None:
    (here / "folder.py").mkdir()
    (here / "binary.py").write_bytes(b"\xff\0--budget")
    (here / "nowhere.py").symlink_to(here / "nothing")
    assert told("--out").startswith("--out goes to main.py")
    assert told("--budget") == ""


def test_each_command_tells_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    for command, own, flag in (
        (search, ["--budget", "x"], "--budget"), (record, ["--for", "x"], "--start-after"),
        (run, ["no.json"], "--config"),
    ):  # fmt: skip
        assert command.main([*own, "--", "python", "main.py", flag, "x=1"]) == 2
        assert f"rpc-tuner: {flag} goes to main.py" in capsys.readouterr().err
