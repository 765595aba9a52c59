"""A program that is started warm sees, does and leaves what it does when it is started cold."""

import difflib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.world.command.warm.starting_both import (
    PYTHON,
    Ended,
    both,
    hooked,
    learnt_with,
    run_to_end,
)
from tuner.world.command.program_commands import ColdStarter
from tuner.world.command.warm.warm_starting import WarmStarter

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
WAYS = [
    "exits_with_text", "exits_at_once", "raises_end_of_file", "interrupted", "killed",
    "raises_from", "end_late", "own_excepthook", "exits_in_a_child", "spawns_in_a_forked_child",
    "is_killed_by_its_child", "starts_itself_again", "raises_in_text",
]  # fmt: skip


def difference(cold: Ended, warm: Ended) -> str:
    lines = [re.sub(r"0x[0-9a-f]+", "0x", f"{end.code}\n{end.out}\n{end.err}").splitlines()
             for end in (cold, warm)]  # fmt: skip
    return "\n".join(difflib.unified_diff(lines[0], lines[1], "cold", "warm", lineterm="", n=0))


@pytest.mark.parametrize(
    "how",
    [(PYTHON, "-W", "error", "sees.py", "one", "two words"), (PYTHON, "-u", "-m", "sees", "-m"),
     (PYTHON, "-OP", "./sees.py"), ("env", "SEEN_BY_C=own", "RANK=1", PYTHON, "sees.py", "A=1"),
     (PYTHON, "-W", "error", "-uc", "import sees; sees.show()", "one", "-c")],
)  # fmt: skip
def test_a_program_and_its_children_see_the_same(how: tuple[str, ...], tmp_path: Path) -> None:
    environment = hooked(tmp_path, SEEN_BY_C="given", PYTHONPATH=str(HERE))
    cold, warm = both([*how], environment, HERE)
    assert difference(cold, warm) == ""
    assert warm.code == 0
    seen = json.loads(warm.out[warm.out.index("{") :])
    assert seen["codes"] == [5, 1, -15]
    assert seen["child"]["child_of_parent"]
    assert seen["nothing_left"]


@pytest.fixture(scope="module", params=["script", "code"])
def starters(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, str], ColdStarter, WarmStarter]]:
    environment = hooked(tmp_path_factory.mktemp("reports"))
    script = "ends.py"
    command = [PYTHON, script if request.param == "script" else f"-c{(HERE / script).read_text()}"]
    with WarmStarter(command, environment, HERE, learnt_with(environment)) as warm:
        yield environment, ColdStarter(command, HERE), warm


@pytest.mark.parametrize("how", WAYS)
def test_it_ends_the_same(
    how: str, starters: tuple[dict[str, str], ColdStarter, WarmStarter]
) -> None:
    environment, cold, warm = starters
    environment = {**environment, "HOW": how}
    one, other = run_to_end(cold, environment), run_to_end(warm, environment)
    assert difference(one, other) == ""


def test_a_module_with_an_error_ends_the_same(tmp_path: Path) -> None:
    (tmp_path / "fails").mkdir()
    (tmp_path / "fails" / "__init__.py").touch()
    (tmp_path / "fails" / "__main__.py").write_text("def f():\n    raise ValueError(7)\nf()\n")
    (tmp_path / "bad.py").write_text("print('x'\n")
    for how in (["-m", "fails"], ["bad.py"], ["-m", "not_there"], ["-c", "print('x'"]):
        cold, warm = both([PYTHON, *how], hooked(tmp_path), tmp_path)
        assert difference(cold, warm) == ""
        assert warm.code == 1


def test_random_numbers_are_drawn_anew(tmp_path: Path) -> None:
    (tmp_path / "draws.py").write_text(
        "import random, numpy, tempfile, multiprocessing\n"
        "print(random.random(), numpy.random.random(), next(tempfile._get_candidate_names()),\n"
        "      bytes(multiprocessing.current_process().authkey))\n"
    )
    environment = hooked(tmp_path)
    learnt = learnt_with(environment, ["numpy", "numpy.random", "tempfile", "multiprocessing"])
    with WarmStarter([PYTHON, "draws.py"], environment, tmp_path, learnt) as warm:
        one, two = run_to_end(warm, environment), run_to_end(warm, environment)
    assert (one.code, one.err) == (0, "")
    assert len({*one.out.split(maxsplit=3), *two.out.split(maxsplit=3)}) == 8
