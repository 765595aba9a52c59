"""docs/architecture.md lists every file, and says of it what the file says of itself."""

from tests.architecture.modules import PAGE, folders, folders_of, with_tables


def test_every_folder_has_its_table() -> None:
    assert folders_of(PAGE.read_text()) == folders()


def test_the_tables_say_what_the_files_say() -> None:
    page = PAGE.read_text()
    assert with_tables(page) == page, "python -m tests.architecture writes them again"
