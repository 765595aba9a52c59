"""How commands are interrupted; their exit codes and JSON are tested with each of them."""

import signal
from collections.abc import Iterator

import pytest

import tuner.__main__
from tuner.command_line import Interruption


class SignalsWhenItGoes:
    """Has a signal arrive while Python runs a destructor, which can raise nothing."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


@pytest.fixture
def interruption() -> Iterator[Interruption]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield Interruption()
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts(interruption: Interruption, number: int) -> None:
    interruption.check()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    with pytest.raises(KeyboardInterrupt):
        interruption.check()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_python_drops_interrupts_at_the_next_check(
    interruption: Interruption,
) -> None:
    SignalsWhenItGoes(signal.SIGINT)  # nothing is raised here, though a signal came
    with pytest.raises(KeyboardInterrupt):
        interruption.check()


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuner.__main__.main(["--version"]) == 0
    assert capsys.readouterr().out == f"rpc-tuner {tuner.__version__}\n"
