"""Studies are found by name, by folder, and in a storage."""

import shutil
from pathlib import Path

import pytest

from tests.present.results import ENVIRONMENT, study_plan
from tuner.errors import UsageError
from tuner.study import finding
from tuner.study.finding import earlier_studies, find_study
from tuner.study.folder import studies_in
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import create_study


def made(folder: Path, name: str = "udf", storage: str | None = None) -> None:
    """A study of which nothing was measured yet."""
    plan = study_plan(name=name, space={"num_worker_threads": [1, 2]})
    create_study(StudyPlace.named(name, storage=storage, out=folder), plan, ENVIRONMENT)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal(reference: str, *, storage: str | None = None, out: Path | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        find_study(reference, storage=storage, out=out)
    return str(caught.value)


def test_by_its_name_its_folder_and_its_name_in_a_folder() -> None:
    made(Path("studies/udf"))
    found = find_study("udf")
    assert (found.files.root, found.interrupted) == (Path("studies/udf"), True)
    made(Path("some/where"), "one")
    for reference in ("some/where", "./some/where/", "some/where/study.db"):
        assert find_study(reference).study == "one"
        assert find_study(str(Path(reference).absolute())).study == "one"
    assert find_study("one", out=Path("some/where")).study == "one"
    assert refusal("onne", out=Path("some/where")) == (
        "there is no study 'onne' in the folder some/where; did you mean one?"
    )
    assert refusal("one", out=Path("no")) == "there is no study in the folder no"
    assert not Path("no").exists()
    # A folder of several studies asks which.
    for name in ("one", "two"):
        made(Path("both"), name)
    assert refusal("both") == (
        "the folder both holds the studies one, two: name one of them, with --out both"
    )
    assert find_study("two", out=Path("both")).study == "two"


def test_in_a_storage() -> None:
    url = f"sqlite:///{Path('shared.db').absolute()}"
    made(Path("studies/udf"), "udf", url)
    made(Path("elsewhere"), "other", url)
    assert find_study("udf", storage=url).files.root == Path("studies/udf")
    found = find_study("other", storage=url, out=Path("elsewhere"))
    assert (found.study, found.files.root) == ("other", Path("elsewhere"))
    assert refusal("othr", storage=url).endswith("shared.db; did you mean other?")
    empty = f"sqlite:///{Path('empty.db').absolute()}"
    assert refusal("udf", storage=empty).endswith("empty.db; it holds none")
    assert not Path("empty.db").exists()


def test_one_that_is_not_there() -> None:
    here = Path("studies").resolve()
    ending = (
        f". Give the name of a study in {here} or the path of its folder. One that was searched "
        "with --storage URL needs that again"
    )
    assert refusal("udf") == f"there is no study 'udf'; the folder studies holds none{ending}"
    made(Path("studies/udf"))
    made(Path("studies/light"))
    assert refusal("udff") == f"there is no study 'udff'; did you mean udf?{ending}"
    assert refusal("") == f"there is no study ''; known: light, udf{ending}"


def test_a_study_that_another_search_deletes_just_now_is_no_earlier_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("one", "two"):
        made(Path("studies") / name, name)
    found = studies_in(Path("studies"))
    shutil.rmtree("studies/one")
    monkeypatch.setattr(finding, "studies_in", lambda folder: found)
    earlier = earlier_studies(StudyPlace.named("new"))
    assert [place.address.name for place in earlier] == ["two"]
