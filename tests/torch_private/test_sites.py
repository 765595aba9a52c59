"""Which line of a program stands for what is on the stack, and how it is shown."""

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.rpc as rpc

import tuner
from tuner.torch_private import sites
from tuner.torch_private.sites import definition_of, site_here, site_of_callback

Function = Callable[..., Any]
async_execution: Function = rpc.functions.async_execution


def folder_of(module: Any) -> Path:
    return Path(str(module.__file__)).parent


API = folder_of(torch) / "distributed/rpc/api.py"
CLIENT = folder_of(tuner) / "trace/record/client.py"
FUTURES = folder_of(threading) / "concurrent/futures/thread.py"


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The program runs in /work, and imports from folders elsewhere, too."""
    monkeypatch.setattr("os.getcwd", lambda: "/work")
    monkeypatch.setattr(sys, "path", ["/work", "/tools", "", "/venv/site-packages"])
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    caches: tuple[Any, ...] = (sites._roots, sites._path)
    for known in (sites._kinds, sites._sites, sites._library_sites, sites._codes):
        monkeypatch.setattr(sites, next(n for n, v in vars(sites).items() if v is known), {})
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def calling(path: Path | str, line: int = 2, module: str = "some") -> Function:
    """A function in such a file, which calls another one in this line."""
    text = "\n" * (line - 2) + "def call(function):\n    return function()\n"
    names: dict[str, Any] = {"__name__": module}
    exec(compile(text, str(path), "exec"), names)  # noqa: S102 - the file need not exist
    return names["call"]  # type: ignore[no-any-return]


def seen(*stack: Function, most_often: int = 0) -> str:
    """The site on a thread where these call each other, and nothing else of a program is."""
    found: list[str] = []
    function: Function = functools.partial(lambda: found.append(site_here(2, most_often)))
    for call in reversed(stack):
        function = functools.partial(call, function)
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize(
    ("stack", "site"),
    [
        ([("/work/main.py", 42), (API, 9), (CLIENT, 9)], "main.py:42"),
        ([("/work/main.py", 42), ("/work/net/store.py", 7), (API, 9)], "net/store.py:7"),
        ([("/work/main.py", 42), ("/venv/site-packages/rl/agent.py", 7), (API, 9)], "main.py:42"),
        ([("/work/main.py", 42), ("/usr/lib/python3/dist-packages/rl.py", 7)], "main.py:42"),
        ([("/work/main.py", 42), (FUTURES, 7), (API, 9)], "main.py:42"),
        # Of several frames of a library, without one of the program, the innermost.
        ([("/venv/site-packages/rl/a.py", 3), ("/venv/site-packages/rl/b.py", 4), (API, 9)],
         "rl/b.py:4"),
        # The script of a library's command, too, is none of the program.
        ([("/venv/bin/train", 8), ("/venv/site-packages/rl/a.py", 3), (API, 9)], "rl/a.py:3"),
        ([("/work/venv/lib/site-packages/rl/a.py", 3)], "rl/a.py:3"),
        ([(FUTURES, 7), (API, 9)], ""),
        ([(API, 9), (CLIENT, 9)], ""),
        # Elsewhere it is as it is imported, or else the file's name.
        ([("/tools/net/store.py", 5)], "net/store.py:5"),
        ([("/somewhere/else/store.py", 5)], "store.py:5"),
        ([("/workshop/store.py", 5)], "store.py:5"),
        ([("scripts/../main.py", 5)], "main.py:5"),
        ([("<string>", 3, "__main__"), (API, 9)], "<string>:3"),
        ([("/work/main.py", 42), ("<string>", 3, "generated"), ("<frozen runpy>", 3)],
         "main.py:42"),
    ],
)  # fmt: skip
def test_the_innermost_line_of_the_program_is_the_site(stack: list[Any], site: str) -> None:
    assert seen(*(calling(*place) for place in stack)) == site


def test_each_line_of_a_function_is_a_site_of_its_own_and_found_again() -> None:
    calls = [calling("/work/main.py", line) for line in (5, 6, 5)]
    for _ in range(2):
        assert [seen(call) for call in calls] == ["main.py:5", "main.py:6", "main.py:5"]


def test_where_it_is_most_often_only_a_line_of_the_program_is_found_at_once() -> None:
    main, inner, api = calling("/work/main.py", 42), calling("/work/net.py", 7), calling(API)
    library = calling("/venv/site-packages/rl/a.py", 3)
    for _ in range(2):
        assert seen(main, api, most_often=3) == "main.py:42"
        assert seen(main, inner, api, most_often=3) == "net.py:7"
        assert seen(main, library, api, most_often=3) == "main.py:42"
        assert seen(library, api, most_often=3) == "rl/a.py:3"
        assert seen(main, api, api, most_often=3) == "main.py:42"
        # As in a callback: C++ calls PyTorch's function.
        assert seen(api, most_often=99) == ""


def test_a_bounded_number_of_sites_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites, "_MOST_KNOWN", 3)
    calls = [calling("/work/main.py", line) for line in range(5, 10)]
    for _ in range(2):
        found = [seen(call) for call in calls]
        assert found == ["main.py:5", "main.py:6", "main.py:7", "", ""]
    assert (len(sites._sites), len(sites._codes), len(sites._kinds)) == (3, 3, 1)


def test_a_stack_is_not_searched_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites, "_MOST_FRAMES", 30)
    main, library = calling("/work/main.py", 42), calling("/venv/site-packages/rl/a.py", 3)
    assert seen(main, *[library] * 20) == "main.py:42"
    assert seen(main, *[library] * 50) == "rl/a.py:3"


def test_a_callback_that_is_not_the_programs_has_the_site_that_added_it() -> None:
    theirs, own = calling(API), calling("/work/main.py", 7)
    main = calling("/work/main.py", 42)
    found = [main(lambda each=each: site_of_callback(each, 2)) for each in (theirs, own, print)]
    assert found == ["main.py:42", "", ""]


class Table:
    def __init__(self) -> None:
        """Is defined."""

    def row(self) -> None:
        """Is defined."""

    @staticmethod
    def name() -> None:
        """Is defined by a decorator."""

    @classmethod
    @async_execution
    def later(cls) -> None:
        """Is defined by two."""

    def __call__(self) -> None:
        """Is defined."""


class Narrow(Table):
    def __getattr__(self, name: str) -> None:
        raise AssertionError("code of the program")


@async_execution
def asynchronous() -> None:
    """Is wrapped."""


def line_of(code: str) -> str:
    """The place of a line of this file."""
    lines = Path(__file__).read_text().splitlines()
    return f"{sites._path(__file__)}:{1 + lines.index(code)}"


def test_where_a_function_is_defined() -> None:
    assert definition_of(line_of) == line_of("def line_of(code: str) -> str:")
    decorated = Path(__file__).read_text().splitlines().index("def asynchronous() -> None:")
    assert definition_of(asynchronous).endswith(f"test_sites.py:{decorated}")
    partial = functools.partial(functools.partial(line_of), "a")
    assert definition_of(partial) == definition_of(line_of)
    for kind in (Table, Narrow):
        assert definition_of(kind) == line_of("    def __init__(self) -> None:")
        assert definition_of(kind()) == line_of("    def __call__(self) -> None:")
        assert definition_of(kind, "row") == line_of("    def row(self) -> None:")
        assert definition_of(kind().row) == definition_of(kind, "row")
        assert definition_of(kind, "name") == line_of("    @staticmethod")
        assert definition_of(kind, "later") == line_of("    @classmethod")
        assert definition_of(kind, "nothing") == ""


@pytest.mark.parametrize("thing", [max, torch.add, int, ValueError, None, 3, object()])
def test_what_is_not_defined_in_python_is_defined_nowhere(thing: object) -> None:
    assert definition_of(thing) == ""
