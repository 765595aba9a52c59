from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tuner.world.rank.run_rank import OverriddenError, _work


def test_where_affinity_is_forbidden_the_failure_names_the_knob(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(index: int, ranks: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("tuner.process_knobs.bind_rank", refuse)
    spec = SimpleNamespace(intra_op_threads=torch.get_num_threads())
    task: Any = SimpleNamespace(
        values={"cpu_binding": "equal"}, place=(0, 2), order=None, spec=spec
    )
    parent: Any = SimpleNamespace(enter=lambda phase: None)
    with pytest.raises(OverriddenError, match="cpu_binding could not be set: Operation not perm"):
        _work(task, parent)
