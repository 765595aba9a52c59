"""Image classifiers, and synthetic images to train them on; nothing here is distributed."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

ModelName = Literal["small", "resnet50"]

CLASSES = 10
CHANNELS = 3
_NORM_GROUPS = 8
# Rows and columns of the coarse pattern that the images of a class share.
_PATTERN_SIZE = 4
_WRONG_LABEL_EVERY = 4


def make_model(name: str, seed: int) -> nn.Module:
    """The model, from images (N, 3, H, W) to logits; its parameters depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name == "small":
            return SmallResNet()
        model: nn.Module = importlib.import_module("torchvision").models.resnet50()
        return model


def missing_library(model: str) -> Sequence[str]:
    """What the option `model` needs and is not installed, in sentences."""
    if model != "resnet50":
        return ()
    needs = "option model is resnet50, which needs torchvision"
    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError:
        return (f"{needs}, and that is not installed",)
    except Exception as error:
        # A torchvision that was built for another PyTorch may raise anything.
        return (f"{needs}, and that cannot be imported: {type(error).__name__}: {error}",)
    return ()


class SmallResNet(nn.Module):
    """A residual network of 78,000 parameters: a stem, three blocks, global pooling, one layer.

    GroupNorm treats each image alone, so training changes nothing but the parameters.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv3x3(CHANNELS, 16), nn.GroupNorm(_NORM_GROUPS, 16), nn.ReLU())
        self.blocks = nn.Sequential(
            ResidualBlock(16, 16),
            ResidualBlock(16, 32, stride=2),
            ResidualBlock(32, 64, stride=2),
        )
        self.classifier = nn.Linear(64, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (N, CLASSES) of images (N, 3, H, W)."""
        logits: Tensor = self.classifier(self.blocks(self.stem(images)).mean(dim=(2, 3)))
        return logits


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut, which is the identity where the shapes allow it."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            _conv3x3(inputs, outputs, stride),
            nn.GroupNorm(_NORM_GROUPS, outputs),
            nn.ReLU(),
            _conv3x3(outputs, outputs),
            nn.GroupNorm(_NORM_GROUPS, outputs),
        )
        self.shortcut = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Conv2d(inputs, outputs, kernel_size=1, stride=stride, bias=False)
        )

    def forward(self, images: Tensor) -> Tensor:
        """From (N, inputs, H, W) to (N, outputs, H / stride, W / stride), rounded up."""
        return torch.relu(self.residual(images) + self.shortcut(images))


def _conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False)


@dataclass(frozen=True)
class Batch:
    """Images (N, 3, H, W) and their classes (N,)."""

    images: Tensor
    labels: Tensor

    def loss(self, model: nn.Module) -> Tensor:
        """The mean cross-entropy of the model's logits."""
        return functional.cross_entropy(model(self.images), self.labels)


def make_batches(
    count: int, images: int, size: int, *, seed: int, trainer: int, device: str = "cpu"
) -> list[Batch]:
    """`count` batches of the same `images` images of `size` x `size`, for one trainer.

    An image is the pattern of its class, which depends on the seed alone, plus noise that is as
    strong. In each batch one label in four is wrong, each time another one, so that gradients do
    not fade, however long a model learns.
    """
    pattern_shape = (CLASSES, CHANNELS, _PATTERN_SIZE, _PATTERN_SIZE)
    patterns = torch.randn(pattern_shape, generator=torch.Generator().manual_seed(seed))
    generator = torch.Generator().manual_seed(seed + 1 + trainer)
    classes = torch.randint(CLASSES, (images,), generator=generator)
    noise = torch.randn(images, CHANNELS, size, size, generator=generator)
    pictures = (functional.interpolate(patterns, size=(size, size))[classes] + noise).to(device)

    def make_labels(batch: int) -> Tensor:
        wrong = torch.arange(images) % _WRONG_LABEL_EVERY == batch % _WRONG_LABEL_EVERY
        shift = torch.randint(1, CLASSES, (images,), generator=generator)
        return ((classes + wrong * shift) % CLASSES).to(device)

    return [Batch(pictures, make_labels(batch)) for batch in range(count)]
