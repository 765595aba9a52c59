"""The head and the tail of what a process printed."""

from pathlib import Path

from tuner.world.failure_evidence import MOST_KEPT, give_up_middle, head_and_tail


def test_of_a_long_file_both_ends_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "printed"
    file.write_bytes(b"x" * 100)
    assert head_and_tail(file, 100) == b"x" * 100
    file.write_bytes(b"first " + b"x" * 10_000 + b" last")
    kept = head_and_tail(file, 101)
    assert kept.startswith(b"first xxx")
    assert kept.endswith(b"xxx last")
    assert b"\n[... 9,910 bytes are left out here ...]\n" in kept
    assert len(kept) < 160


def test_the_disk_gets_the_middle_back_while_the_file_is_written(tmp_path: Path) -> None:
    file = tmp_path / "printed"
    with file.open("wb") as writer:
        writer.write(b"first " + b"x" * (9 * MOST_KEPT) + b" middle")
        writer.flush()
        before = head_and_tail(file)
        give_up_middle(file)
        freed = file.stat().st_blocks * 512
        assert head_and_tail(file) == before
        writer.write(b" last")
    give_up_middle(tmp_path / "gone")
    assert head_and_tail(file).endswith(b" middle last")
    assert freed < 3 * MOST_KEPT
