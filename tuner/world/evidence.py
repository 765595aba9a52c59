"""Keeps what a failed world leaves behind, beside the failure itself."""

from collections.abc import Sequence
from pathlib import Path

import orjson

from tuner.files import written_atomically
from tuner.json_text import json_of
from tuner.plan.config import Config
from tuner.world.bounded_files import head_and_tail
from tuner.world.measurement import Failure

FORMAT = 2


def with_evidence(
    failure: Failure, folder: Path, captured: Sequence[Path], config: Config, *, called: str = ""
) -> Failure:
    """Keep evidence of a failure in a folder, and have its message name the folder.

    Args:
        failure: What went wrong.
        folder: Where to keep it; made if need be.
        captured: Files to copy; empty ones are left out.
        config: The configuration that failed.
        called: What the message calls the folder; empty: as one within a study's.

    Returns:
        The failure; its message says where to look, or why nothing could be kept.
    """
    where = called or f"{folder.parent.name}/{folder.name}"
    kept = failure.model_copy(update={"message": f"{failure.message}; see {where}"})
    try:
        _keep(folder, captured, kept, config)
    except OSError as error:
        # The disk may be full; the failure is known all the same.
        lost = f"its evidence could not be kept: {error}"
        return failure.model_copy(update={"message": f"{failure.message}; {lost}"})
    return kept


def _keep(folder: Path, captured: Sequence[Path], failure: Failure, config: Config) -> None:
    for file in captured:
        if file.stat().st_size:
            with written_atomically(folder / file.name) as partial:
                partial.write_bytes(head_and_tail(file))
    with written_atomically(folder / "failure.json") as partial:
        document = {
            "format": FORMAT,
            "config": config.to_json(),
            **failure.model_dump(exclude={"kind"}),
        }
        partial.write_bytes(json_of(document, option=orjson.OPT_INDENT_2))
