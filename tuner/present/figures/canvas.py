"""What every figure shares: its look, and how it becomes a file."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from tuner.files import written_atomically

_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "svg.fonttype": "none",
    "svg.hashsalt": "rpc-tuner",
}


@contextmanager
def canvas(size: tuple[float, float], paths: Iterable[Path]) -> Iterator[Figure]:
    """Yield a figure of so many inches; write it to each path, in the format of its suffix."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        for path in paths:
            key = "Description" if path.suffix == ".svg" else "Software"
            with written_atomically(path) as partial:
                figure.savefig(partial, dpi=150, metadata={key: "rpc-tuner figure, format 1"})
