"""`python -m tuner <command>`, and the console script `rpc-tuner`."""

import importlib
import sys
from importlib.metadata import version

COMMANDS = {
    "search": "find the best RPC settings for a workload",
    "analyze": "tables, a diagnosis and a timeline of existing traces",
    "report": "the page of a study, or of several side by side",
    "export": "the recommended settings as JSON, TOML or Python",
    "dashboard": "studies in a browser, by optuna-dashboard",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command named first in the arguments; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    program = "rpc-tuner"
    name = arguments[0] if arguments else "--help"
    if name in COMMANDS:
        command = importlib.import_module(f"tuner.{name}")
        return int(command.main(arguments[1:], program=f"{program} {name}"))
    usage = "\n".join(
        [
            f"usage: {program} COMMAND [OPTIONS]",
            "",
            *(f"  {command:<10} {summary}" for command, summary in COMMANDS.items()),
            "",
            f"{program} COMMAND --help tells more; {program} --version tells the version.",
        ]
    )
    if name == "--version":
        usage = f"rpc-tuner {version('rpc-tuner')}"
    wrong = name not in ("--help", "-h", "--version")
    if wrong:
        usage = f"rpc-tuner: unknown command {name!r}\n{usage}"
    print(usage, file=sys.stderr if wrong else sys.stdout)
    return 2 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
