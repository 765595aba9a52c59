"""A storage is opened, or refused in a sentence that says why and shows no password."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.errors import UsageError
from tuner.study.storage.address import StudyAddress, StudyPlace


def opened_by_several(url: str) -> list[str]:
    """What went wrong when several searches opened a storage at the same moment."""
    together, errors = threading.Barrier(4), []

    def open_it() -> None:
        together.wait()
        try:
            StudyAddress(url, "udf", in_own_folder=False).names()
            _ = StudyAddress(url, "udf", in_own_folder=False).storage
        except UsageError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_several_searches_may_open_a_new_storage_at_once(tmp_path: Path) -> None:
    for number in range(3):
        assert opened_by_several(f"sqlite:///{tmp_path}/{number}.db") == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("oracle9://me:secret@nowhere", "cannot open the storage oracle9://me:***@nowhere: "),
        ("mysql+nodriver://me:secret@h/db", "cannot open the storage mysql+nodriver://me:***@h/db"),
        ("soup", "cannot open the storage soup: Could not parse SQLAlchemy URL"),
        ("sqlite:///no/such/x.db", "cannot open the storage sqlite:///no/such/x.db: there is no "
                                   "folder no/such"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ask", [StudyAddress.names, StudyAddress.exists])
def test_what_cannot_be_opened_is_told(
    url: str, message: str, ask: Callable[[StudyAddress], object]
) -> None:
    address = StudyAddress(url, "udf", in_own_folder=False)
    with pytest.raises(UsageError) as caught:
        ask(address)
    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value) + repr(address)


def test_a_name_decides_the_folder_and_the_database() -> None:
    address, folder = StudyPlace.named("night")
    assert folder.root == Path("studies/night")
    assert address.sqlite_file == folder.database.resolve()
    assert (address.name, address.in_own_folder) == ("night", True)


def test_a_study_may_be_elsewhere() -> None:
    address, folder = StudyPlace.named("night", storage="sqlite:///x.db", out=Path("here"))
    assert folder.root == Path("here")
    assert (address.sqlite_file, address.in_own_folder) == (Path("x.db"), False)


def test_a_missing_driver_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError) as caught:
        StudyAddress("postgresql://me:secret@nowhere/db", "udf", in_own_folder=False).names()
    assert str(caught.value).startswith("cannot open the storage postgresql://me:***@nowhere/db: ")
    assert str(caught.value).endswith("pip install 'rpc-tuner[postgresql]'")
