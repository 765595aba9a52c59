"""`python -m tuner <command>`, and the console script `rpc-tuner`."""

import os
import sys

from tuner.errors import MissingPackageError, telling_what_is_missing
from tuner.flags import say

COMPLETION_VARIABLE = "_RPC_TUNER_COMPLETE"
"""The shell sets it, and asks what a half-typed command may go on with."""
_TAKE_PROGRAM = ("search", "record", "run")


def main(arguments: list[str] | None = None) -> int:
    """Run the command that the arguments name first; returns the exit code."""
    given = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if given[0] == "run" and COMPLETION_VARIABLE not in os.environ:
        # It works where torch is the only package.
        from tuner.run import main as run_program

        return run_program(given[1:], "rpc-tuner run")
    try:
        with telling_what_is_missing():
            from tuner.command_line import run
            from tuner.commands import app
    except MissingPackageError as error:
        say(f"rpc-tuner: {error}", file=sys.stderr)
        return error.exit_code
    return run(app, given, "rpc-tuner", takes_program=given[0] in _TAKE_PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
