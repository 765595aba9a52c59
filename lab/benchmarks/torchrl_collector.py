"""TorchRL's RPC collector as its users write it: frames as large as Atari's, and a small policy.

TorchRL pins 16 threads and the transport uv, and what its users pass as `tensorpipe_options` is
lost in `dict.update`. It prints how many frames came per second, and how many batches.
"""

import sys
import time

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors.distributed import RPCCollector
from torchrl.data import Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

FRAME = (4, 84, 84)
ACTIONS = 6


class Screen(EnvBase):
    """Shows the same frames over and over."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_spec = Composite(
            pixels=Bounded(0, 255, shape=FRAME, dtype=torch.uint8), shape=()
        )
        self.action_spec = Categorical(ACTIONS, shape=())
        self.reward_spec = Unbounded(shape=(1,))
        self._frames = torch.randint(0, 256, (16, *FRAME), dtype=torch.uint8)
        self._steps = 0

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDict:
        return TensorDict({"pixels": self._frames[0]})

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        self._steps += 1
        pixels = self._frames[self._steps % len(self._frames)]
        reward = tensordict["action"].float().reshape(1)
        done = torch.zeros(1, dtype=torch.bool)
        return TensorDict({"pixels": pixels, "reward": reward, "done": done})

    def _set_seed(self, seed: int | None) -> None:
        torch.manual_seed(seed or 0)


class Policy(nn.Module):
    """Looks at one pixel in sixteen."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(FRAME[0] * 21 * 21, ACTIONS)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        few = pixels[..., ::4, ::4].flatten(-3).float() / 255
        return self.score(few).argmax(-1)


def main(collectors: int, batches: int) -> None:
    collector = RPCCollector(
        [Screen] * collectors,
        TensorDictModule(Policy(), in_keys=["pixels"], out_keys=["action"]),
        frames_per_batch=100,
        total_frames=100 * batches,
        launcher="mp",
    )
    started_s = time.perf_counter()
    frames = [batch.numel() for batch in collector]
    took_s = time.perf_counter() - started_s
    collector.shutdown()
    print(f"batches: {len(frames)}")
    print(f"fps: {sum(frames) / took_s:.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
