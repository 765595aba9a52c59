"""`python -m tests.architecture`: write the tables of files in docs/architecture.md again."""

from tests.architecture.modules import PAGE, with_tables

PAGE.write_text(with_tables(PAGE.read_text()))
