from tuner.errors import MOST_PROBLEMS, LauncherError, TunerError, UsageError


def test_one_problem_reads_as_a_sentence_and_several_are_counted_and_listed() -> None:
    assert str(UsageError.about("the plan", ["no knob"])) == "the plan: no knob"
    assert str(UsageError.of_request(["no knob"])) == "no knob"
    error = UsageError.about("the plan", ["no knob", "no budget"])
    assert str(error) == "the plan: 2 problems\n  - no knob\n  - no budget"
    assert error.problems == ("no knob", "no budget")


def test_control_characters_in_a_message_are_shown() -> None:
    assert str(TunerError("no \x1b[2J\udc80")) == r"no \x1b[2J\udc80"
    assert str(UsageError("no \x9b", ["\u202e", "b"])) == "no \\x9b\n  - \\u202e\n  - b"


def test_a_message_is_bounded() -> None:
    error = UsageError.about("the plan", [f"{place}: {'x' * 10**6}" for place in range(100)])
    lines = str(error).splitlines()
    assert len(lines) == 1 + MOST_PROBLEMS + 1
    assert lines[-1] == "  - 85 more"
    assert max(map(len, lines)) < 1100
    assert len(error.problems) == 100
    assert len(str(UsageError("x" * 10**6))) < 1100
    assert len(str(LauncherError("x\n" * 10**6))) < 21_000
    # That of another error keeps all its lines.
    inner = UsageError.about("the plan", [f"{place}: {'x' * 900}" for place in range(15)])
    assert str(UsageError(str(inner))) == str(inner)
