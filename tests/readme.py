"""The search that the README shows: `make pictures` runs it, and a test compares its headings."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
# A command and its output.
SHOWN = re.compile(r"```\n\$ (python -m tuner\.search .*?)\n\n(.*?)\n```\n", re.DOTALL)
WIDTH = 100
"""The columns of the terminal that it runs on."""
