"""How long hypothesis may take, and what keeps tests from meeting, side by side or in turn.

Programs have fixed ports, so each process of pytest-xdist has a network of its own. Where the
system allows none, the tests that start worlds take turns.
"""

import fcntl
import os
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

from tuner.world.own_network import move_into_new

# A machine that does something else for a moment is no failure of a test.
settings.register_profile("default", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=15)
settings.load_profile("default")

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID")
TAKES_TURNS = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TAKES_TURNS] = False
    # Ranks write to one pipe: without a buffer, a line and its end are written apart.
    os.environ.pop("PYTHONUNBUFFERED", None)
    # What is told to be typed is spelled by what is on the PATH.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    if RUN is not None:
        try:
            move_into_new()
        except OSError:
            config.stash[TAKES_TURNS] = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if not (item.config.stash[TAKES_TURNS] and item.get_closest_marker("world")):
        return (yield)
    with (Path(tempfile.gettempdir()) / f"rpc-tuner-tests-{RUN}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return (yield)


@contextmanager
def signals_restored() -> Iterator[None]:
    """A command that runs in this process must not leave its handlers behind: processes that a
    later test forks would take no SIGTERM."""
    kept, hook = {each: signal.getsignal(each) for each in ENDING}, sys.unraisablehook
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for each, handler in kept.items():
            signal.signal(each, handler)


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    with signals_restored():
        yield
