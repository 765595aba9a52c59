import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from workloads.models import CLASSES, make_batches, make_model, missing_library


def test_a_seed_makes_one_model_and_leaves_torchs_generator_alone() -> None:
    before = torch.random.get_rng_state()
    first, second, third = (make_model("small", seed).state_dict() for seed in (5, 5, 6))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["classifier.weight"], third["classifier.weight"])


def test_batches_depend_on_seed_and_trainer() -> None:
    first, other, elsewhere = (
        make_batches(2, 4, 8, seed=seed, trainer=trainer)
        for seed, trainer in ((3, 1), (3, 2), (4, 1))
    )
    assert [batch.images.shape for batch in first] == [(4, 3, 8, 8)] * 2
    assert not torch.equal(first[0].images, other[0].images)
    assert not torch.equal(first[0].images, elsewhere[0].images)


def test_one_label_in_four_is_wrong_each_time_another() -> None:
    labels = torch.stack([batch.labels for batch in make_batches(8, 12, 8, seed=3, trainer=1)])
    true_labels = labels.mode(dim=0).values
    wrong = labels != true_labels
    assert wrong.sum(dim=1).tolist() == [3] * 8
    assert wrong.sum(dim=0).tolist() == [2] * 12
    assert 0 <= int(labels.min()) < int(labels.max()) < CLASSES


def test_the_small_model_learns_the_images() -> None:
    model = make_model("small", 1)
    batches = make_batches(4, 8, 8, seed=1, trainer=1)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.05), []
    for update in range(60):
        optimizer.zero_grad()
        loss = batches[update % 4].loss(model)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-4:]) < 0.7 * sum(losses[:4])


def test_the_resnet50_of_torchvision_is_made_from_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType("torchvision")
    fake.models = ModuleType("torchvision.models")  # type: ignore[attr-defined]
    fake.models.resnet50 = lambda: nn.Linear(3, 1000)
    monkeypatch.setitem(sys.modules, "torchvision", fake)
    assert missing_library("resnet50") == ()
    first, second = (make_model("resnet50", 5).get_parameter("weight") for _ in range(2))
    assert torch.equal(first, second)


def test_a_torchvision_for_another_pytorch_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = "operator torchvision::nms does not exist"
    (tmp_path / "torchvision.py").write_text(f"raise RuntimeError({says!r})\n")
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert missing_library("resnet50") == (
        "option model is resnet50, which needs torchvision, and that cannot be imported: "
        "RuntimeError: operator torchvision::nms does not exist",
    )
