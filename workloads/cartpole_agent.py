"""The agent of the CartPole solver: its policy, and how that learns by REINFORCE.

A state is that of CartPole-v1, four floats; action 0 pushes the cart to the left, 1 to the right.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.futures import Future
from torch.optim.adam import adam

DROPOUT = 0.6
State = list[float]


class Policy(nn.Module):
    """A hidden layer with dropout. Its masks are given, so that an episode can be repeated.

    The parameters are drawn from `seed`.
    """

    def __init__(self, hidden: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.hidden = nn.Linear(4, hidden)
            self.output = nn.Linear(hidden, 2)

    def forward(self, states: Tensor, masks: Tensor) -> Tensor:
        """Log-probabilities (..., 2) of the actions, from states (..., 4), masks (..., hidden)."""
        return torch.log_softmax(self.output(torch.relu(masks * self.hidden(states))), dim=-1)


@dataclass(frozen=True)
class Noise:
    """All that is random in the agent's part of an episode.

    It is drawn before the episode, so that no action depends on which observer asks first.
    """

    masks: Tensor
    """(observers, steps, hidden): of dropout, 0 or 1 / (1 - DROPOUT)."""
    uniforms: Tensor
    """(observers, steps), from 0 to 1; action 1 is taken where this is below its probability."""

    @classmethod
    def draw(cls, shape: tuple[int, int], hidden: int, seed: int, device: torch.device) -> Self:
        """The noise of an episode of `shape` (observers, steps)."""
        generator = torch.Generator(device).manual_seed(seed)
        kept = torch.empty(*shape, hidden, device=device)
        kept.bernoulli_(1 - DROPOUT, generator=generator)
        uniforms = torch.rand(shape, device=device, generator=generator)
        return cls(masks=kept / (1 - DROPOUT), uniforms=uniforms)


@dataclass(frozen=True)
class Played:
    """What one observer's environment gave in each step of an episode."""

    rewards: list[float]
    ends: list[bool]
    """Whether the pole fell or its time was up, so that it was set up again."""


@dataclass(frozen=True)
class Episode:
    """An episode of all observers that the agent has learned from."""

    states: Tensor
    """(observers, steps, 4)"""
    actions: Tensor
    """(observers, steps): the actions taken in those states."""
    log_probs: Tensor
    """(observers, steps): the log-probabilities of those actions that the update used."""
    played: list[Played]
    """One per observer."""
    parameters_before: dict[str, Tensor]
    """The policy's, before the update."""


class Adam:
    """The Adam optimizer. To make PyTorch's own takes a second, since it imports the compiler."""

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float) -> None:
        self._parameters = list(parameters)
        self._learning_rate = learning_rate
        self._averages = [torch.zeros_like(each) for each in self._parameters]
        self._averages_of_squares = [torch.zeros_like(each) for each in self._parameters]
        self._steps = [torch.tensor(0.0) for _ in self._parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Update the parameters in place."""
        adam(
            self._parameters,
            list(gradients),
            self._averages,
            self._averages_of_squares,
            [],
            self._steps,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._learning_rate,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )


class Agent:
    """Chooses the actions of all observers, and learns from their rewards.

    An observer waits for one action before it asks for the next, and no other thread touches its
    lists meanwhile. Only the batch that is being collected is shared between threads.
    """

    def __init__(
        self, policy: Policy, *, observers: int, learning_rate: float, gamma: float
    ) -> None:
        self.policy = policy
        self._observers = observers
        self._gamma = gamma
        self._optimizer = Adam(policy.parameters(), learning_rate)
        self._lock = threading.Lock()
        self._asking: dict[int, tuple[State, Future[int]]] = {}

    def begin_episode(self, noise: Noise) -> None:
        """Forget the last episode."""
        self._noise = noise
        self._states: list[list[State]] = [[] for _ in range(self._observers)]
        self._actions: list[list[int]] = [[] for _ in range(self._observers)]

    def select_action(self, observer: int, state: State) -> int:
        """The next action of one observer, by a forward pass of its own."""
        (action,) = self._act(slice(observer, observer + 1), [state])
        return action

    def select_action_batch(self, observer: int, state: State) -> Future[int]:
        """The next action of one observer, by one forward pass once all observers have asked."""
        answer: Future[int] = Future()
        with self._lock:
            self._asking[observer] = state, answer
            if len(self._asking) < self._observers:
                return answer
            batch, self._asking = self._asking, {}
        # An observer that is answered may ask again immediately: that goes into the next batch.
        states, answers = zip(*(batch[each] for each in range(self._observers)), strict=True)
        try:
            actions = self._act(slice(None), states)
        except Exception as error:
            for each in answers:
                each.set_exception(error)
        else:
            for each, action in zip(answers, actions, strict=True):
                each.set_result(action)
        return answer

    def learn(self, played: list[Played]) -> Episode:
        """One REINFORCE update from what the observers have played.

        The log-probabilities of the whole episode are computed again, in one pass. If the gradients
        were summed over one graph per forward pass, rounding would depend on the threads' timing.
        """
        device = self._noise.uniforms.device
        states = torch.tensor(self._states, device=device)
        actions = torch.tensor(self._actions, device=device)
        returns = torch.tensor(
            [discounted_returns(each, self._gamma) for each in played], device=device
        )
        before = {name: value.detach().clone() for name, value in self.policy.named_parameters()}
        log_probs = log_probs_of(actions, self.policy(states, self._noise.masks))
        loss = -(log_probs * standardised(returns)).mean()
        self._optimizer.step(torch.autograd.grad(loss, list(self.policy.parameters())))
        return Episode(states, actions, log_probs.detach(), played, before)

    def _act(self, rows: slice, states: Sequence[State]) -> list[int]:
        """Choose and note the next actions of the observers `rows`, all at the same step."""
        step = len(self._actions[rows.start or 0])
        actions = sample_actions(
            self.policy, states, self._noise.masks[rows, step], self._noise.uniforms[rows, step]
        )
        for noted, state in zip(self._states[rows], states, strict=True):
            noted.append(state)
        for taken, action in zip(self._actions[rows], actions, strict=True):
            taken.append(action)
        return actions


@torch.inference_mode()
def sample_actions(
    policy: Policy, states: Sequence[State], masks: Tensor, uniforms: Tensor
) -> list[int]:
    """One forward pass for `rows` states, under masks (rows, hidden) and uniforms (rows)."""
    log_probs = policy(torch.tensor(states, device=uniforms.device), masks)
    actions: list[int] = (uniforms < log_probs[:, 1].exp()).int().tolist()
    return actions


def log_probs_of(actions: Tensor, log_probs: Tensor) -> Tensor:
    """The log-probabilities of the actions (...), out of those of both actions (..., 2)."""
    return log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def discounted_returns(played: Played, gamma: float) -> list[float]:
    """The return of each step, in which no reward after the end of a pole's episode counts."""
    returns: list[float] = []
    following = 0.0
    for reward, end in zip(reversed(played.rewards), reversed(played.ends), strict=True):
        following = reward if end else reward + gamma * following
        returns.append(following)
    return returns[::-1]


def standardised(returns: Tensor) -> Tensor:
    """The returns, shifted and scaled to mean 0 and standard deviation 1."""
    return (returns - returns.mean()) / (returns.std() + 1e-8)


def mean_reward(played: Sequence[Played]) -> float:
    """The mean, over all poles that were set up, of the rewards that each earned."""
    poles = sum(each.ends.count(True) + (not each.ends[-1]) for each in played)
    return sum(sum(each.rewards) for each in played) / poles
