"""`python -m tests.golden`: write what every medium shows now, and print what has changed.

`python -m tests.golden search NAME...` searches stored studies again first, by the search of today.
"""

import difflib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.golden.media import PLANTED, RENDERED, scenarios, shown, stored
from tests.golden.searched import search_again


def main(arguments: list[str]) -> int:
    """Returns 1 if anything has changed."""
    if arguments[:1] == ["search"]:
        for name in arguments[1:]:
            search_again(name)
    changed, every = 0, {each: shown(each) for each in [*scenarios(), PLANTED]}
    for scenario, now in every.items():
        difference = list(_difference(scenario, stored(scenario), now))
        print("\n".join(difference), end="\n" * bool(difference))
        changed += bool(difference)
    shutil.rmtree(RENDERED)
    for scenario, now in every.items():
        (RENDERED / scenario).mkdir(parents=True)
        for file, text in now.items():
            (RENDERED / scenario / file).write_text(text, encoding="utf-8")
    print(f"{changed} of {len(every)} scenarios have changed.", file=sys.stderr)
    return int(changed > 0)


def _difference(scenario: str, before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for file in sorted(before.keys() | now.keys()):
        name = f"{scenario}/{file}"
        old, new = (each.get(file, "").splitlines() for each in (before, now))
        yield from difflib.unified_diff(old, new, name, name, lineterm="", n=1)


if __name__ == "__main__":
    # As in the tests: what is told to be typed is spelled by what is on the PATH.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    sys.exit(main(sys.argv[1:]))
