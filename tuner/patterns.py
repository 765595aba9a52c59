"""Regular expressions as people give them: checked before anything runs."""

import re
import warnings

from tuner.text import printable


def pattern_problem(text: str) -> str | None:
    """Why the text is no regular expression that can be used; None if it is one."""
    with warnings.catch_warnings():
        # `[[` may mean another thing in a later Python.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            re.compile(text)
        except RecursionError:
            return "nested too deeply"
        except (re.error, OverflowError) as error:
            return printable(str(error))
    return None
