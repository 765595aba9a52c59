"""The knobs: threads, transports, channels and so on, and how each reads and writes its values.

A value is what one process gets; None is PyTorch's own choice. The names and defaults are those of
`torch.distributed.rpc.TensorPipeRpcBackendOptions` (torch 2.13); `tests/world/test_torch_facts.py`
holds them against the installed torch, which the command process never imports.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from tuner.process_knobs import CPU_BINDING as CPU_BINDING_NAME
from tuner.process_knobs import EQUAL, UNBOUND
from tuner.process_knobs import INTRA_OP_THREADS as INTRA_OP_THREADS_NAME
from tuner.process_knobs import SWITCH_INTERVAL as SWITCH_INTERVAL_NAME
from tuner.text import LONGEST_S, did_you_mean, exact_duration, parse_duration_s

DEFAULT_WORD = "default"
_MOST_DIGITS = 4  # of the index of a device


@dataclass(frozen=True)
class DeviceMaps:
    """For each callee, in order of name: pairs of a local and a remote CUDA device index."""

    by_callee: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]


Value = int | float | str | tuple[str, ...] | DeviceMaps | None


@dataclass(frozen=True)
class Knob(ABC):
    """One tunable option: `default` is what PyTorch does when it is not given."""

    name: str
    summary: str
    default: Value
    _: KW_ONLY
    same_for_all_roles: bool = False  # whether `init_rpc` fails where ranks differ in it
    needs_cuda: bool = False
    is_init_rpc_option: bool = True  # whether `init_rpc` takes it, in its `rpc_backend_options`

    def read(self, raw: object) -> Value:
        """The value in `raw` (text, or plain TOML or JSON data); ValueError says what is wrong."""
        if self.default is None and (raw is None or raw == DEFAULT_WORD):
            return None
        return self._read(raw)

    @abstractmethod
    def _read(self, raw: object) -> Value: ...

    def to_json(self, value: Value) -> object:
        """`value` as plain JSON data; `read` takes it back."""
        return list(value) if isinstance(value, tuple) else value

    def to_option(self, value: Value) -> object:
        """`value` as `TensorPipeRpcBackendOptions` takes it."""
        return self.to_json(value)

    def format(self, value: Value) -> str:
        """`value` as a person would type it; `read` takes it back."""
        return DEFAULT_WORD if value is None else self._text(value)

    def _text(self, value: Any) -> str:
        return "+".join(value) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True, kw_only=True)
class IntegerKnob(Knob):
    """A whole number from 1 to `most`."""

    most: int = 4096

    def _read(self, raw: object) -> int:
        try:
            number = int("" if isinstance(raw, bool | float) else str(raw).strip())
        except ValueError:
            raise ValueError(f"{self.name} must be a whole number, got {raw!r}") from None
        if not 1 <= number <= self.most:
            end = "at least 1" if number < 1 else f"at most {self.most}"
            raise ValueError(f"{self.name} must be {end}, got {number}")
        return number


@dataclass(frozen=True)
class SecondsKnob(Knob):
    """A number of seconds above zero, up to `LONGEST_S`."""

    def _read(self, raw: object) -> float:
        try:
            number = float(str(raw).strip() if not isinstance(raw, bool) else "")
        except ValueError:
            raise ValueError(f"{self.name} must be a number of seconds, got {raw!r}") from None
        if not number > 0:
            raise ValueError(f"{self.name} must be above 0, got {number:g}")
        if number > LONGEST_S:
            raise ValueError(f"{self.name} must be at most {LONGEST_S:.0f} s, got {number:g}")
        return number

    def _text(self, value: Any) -> str:
        return repr(value).removesuffix(".0")


@dataclass(frozen=True, kw_only=True)
class DurationKnob(SecondsKnob):
    """A short duration, written `5ms`, in whole microseconds."""

    least_s: float
    most_s: float
    why: str  # why it may not be shorter, or longer

    def _read(self, raw: object) -> float:
        try:
            seconds = parse_duration_s(raw)
        except ValueError:
            raise ValueError(f"{self.name} must be a duration such as 5ms, got {raw!r}") from None
        if not self.least_s <= seconds <= self.most_s:
            ends = f"{exact_duration(self.least_s)} to {exact_duration(self.most_s)}"
            raise ValueError(
                f"{self.name} must be {ends}, got {exact_duration(seconds)}: {self.why}"
            )
        return round(seconds, 6)

    def _text(self, value: Any) -> str:
        return exact_duration(value)


@dataclass(frozen=True, kw_only=True)
class ChoiceKnob(Knob):
    """One of a few words."""

    known: tuple[str, ...]

    def _read(self, raw: object) -> str:
        word = raw.strip() if isinstance(raw, str) else raw
        if word not in self.known:
            raise ValueError(f"unknown {self.name} {raw!r}{did_you_mean(str(raw), self.known)}")
        return str(word)


@dataclass(frozen=True, kw_only=True)
class NamesKnob(Knob):
    """An ordered list of known names, joined by `+`; the order is the priority."""

    known: tuple[str, ...]

    def _read(self, raw: object) -> tuple[str, ...]:
        names = _parts(raw)
        if not names:
            raise ValueError(f"{self.name} has an empty list; known: {', '.join(self.known)}")
        for name in names:
            if name not in self.known:
                singular = self.name.removesuffix("s")
                raise ValueError(f"unknown {singular} {name!r}{did_you_mean(name, self.known)}")
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name} names one twice: {'+'.join(names)}")
        return names


class DevicesKnob(Knob):
    """CUDA devices of a process, joined by `+`: `0+1`, or `cuda:0+cuda:1`."""

    def _read(self, raw: object) -> tuple[str, ...]:
        devices = tuple(f"cuda:{_device(self.name, part)}" for part in _parts(raw))
        if not devices or len(set(devices)) < len(devices):
            raise ValueError(f"{self.name} must be different device indices (0+1), got {raw!r}")
        return devices


class DeviceMapsKnob(Knob):
    """For each callee, which local CUDA device maps to which of its own: `server:0-1+1-0`."""

    def _read(self, raw: object) -> DeviceMaps:
        given = raw if isinstance(raw, Mapping) else self._from_text(str(raw))
        maps = []
        for callee, mapping in sorted(given.items()):
            if not isinstance(mapping, Mapping) or not mapping:
                raise ValueError(f"{self.name} needs device pairs for {callee!r}, got {mapping!r}")
            entries = sorted(
                (_device(self.name, here), _device(self.name, there))
                for here, there in mapping.items()
            )
            if any(len(set(side)) < len(side) for side in zip(*entries, strict=True)):
                raise ValueError(f"{self.name} maps a device twice for {callee!r}")
            maps.append((str(callee), tuple(entries)))
        if not maps:
            raise ValueError(f"{self.name} names no callee")
        return DeviceMaps(tuple(maps))

    def _from_text(self, text: str) -> dict[str, dict[str, str]]:
        maps: dict[str, dict[str, str]] = {}
        for position, part in enumerate(text.split("/")):
            callee, colon, pairs = part.strip().rpartition(":")
            halves = [pair.split("-") for pair in pairs.split("+")]
            if not colon or not callee or any(len(half) != 2 for half in halves):
                raise ValueError(
                    f"{self.name} is written CALLEE:HERE-THERE (worker1:0-1), got {text!r}"
                )
            maps[callee] = dict(halves)
            if len(maps[callee]) < len(halves) or len(maps) <= position:
                raise ValueError(f"{self.name} maps a device or a callee twice: {text!r}")
        return maps

    def to_json(self, value: Value) -> dict[str, dict[str, int]] | None:
        """`{"worker1": {"0": 1}}`."""
        if not isinstance(value, DeviceMaps):
            return None
        return {
            callee: {str(here): there for here, there in own} for callee, own in value.by_callee
        }

    def to_option(self, value: Value) -> object:
        """`{"worker1": {"cuda:0": "cuda:1"}}`."""
        return {
            callee: {f"cuda:{here}": f"cuda:{there}" for here, there in devices.items()}
            for callee, devices in (self.to_json(value) or {}).items()
        }

    def _text(self, value: Any) -> str:
        return "/".join(
            f"{callee}:" + "+".join(f"{here}-{there}" for here, there in pairs)
            for callee, pairs in value.by_callee
        )


def _parts(raw: object) -> tuple[str, ...]:
    if isinstance(raw, Sequence) and not isinstance(raw, str):
        return tuple(map(str, raw))
    return tuple(filter(None, map(str.strip, str(raw).split("+"))))


def _device(knob: str, raw: object) -> int:
    text = str(raw).strip().removeprefix("cuda:")
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise ValueError(f"{knob} takes device indices from 0, got {raw!r}")
    return int(text)


NUM_WORKER_THREADS = IntegerKnob(
    "num_worker_threads", "threads that serve requests and complete this process's own futures", 16
)
TRANSPORTS = NamesKnob(
    "transports", "TensorPipe transports in order of priority, joined by +", None,
    same_for_all_roles=True, known=("shm", "uv", "ibv"),
)  # fmt: skip
CHANNELS = NamesKnob(
    "channels", "TensorPipe channels in order of priority, joined by +", None,
    same_for_all_roles=True,
    known=("cma", "mpt_uv", "basic", "cuda_ipc", "cuda_gdr", "cuda_xth", "cuda_basic"),
)  # fmt: skip
RPC_TIMEOUT = SecondsKnob("rpc_timeout", "default timeout of a call, in seconds", 60.0)
DEVICES = DevicesKnob(
    "devices", "CUDA devices the agent uses, joined by + (needs CUDA)", None, needs_cuda=True
)
DEVICE_MAPS = DeviceMapsKnob(
    "device_maps", "device of the caller to device of each callee, worker1:0-1 (needs CUDA)", None,
    needs_cuda=True,
)  # fmt: skip
INTRA_OP_THREADS = IntegerKnob(
    INTRA_OP_THREADS_NAME,
    "torch.set_num_threads in each process; default: the program's or the workload's own, and of a "
    "bound rank no more than the CPUs of its share", 1, is_init_rpc_option=False,
)  # fmt: skip
CPU_BINDING = ChoiceKnob(
    CPU_BINDING_NAME,
    "equal: each rank is kept to its own share of the host's logical CPUs; none: to none", UNBOUND,
    same_for_all_roles=True, known=(UNBOUND, EQUAL), is_init_rpc_option=False,
)  # fmt: skip
SWITCH_INTERVAL = DurationKnob(
    SWITCH_INTERVAL_NAME,
    "sys.setswitchinterval in each process: how long a thread may keep the GIL from others", 0.005,
    least_s=1e-5, most_s=1.0, is_init_rpc_option=False,
    why="below, threads do little but switch; above, one may stop all others for seconds",
)  # fmt: skip

_KNOBS = (
    NUM_WORKER_THREADS, TRANSPORTS, CHANNELS, RPC_TIMEOUT, DEVICES, DEVICE_MAPS, INTRA_OP_THREADS,
    CPU_BINDING, SWITCH_INTERVAL,
)  # fmt: skip
KNOBS: dict[str, Knob] = {knob.name: knob for knob in _KNOBS}


def agent_options(values: Mapping[str, Value]) -> dict[str, Any]:
    """The options of `init_rpc` by name, as TensorPipeRpcBackendOptions takes them, of the values
    of one process that are known and not None."""
    return {
        name: knob.to_option(value)
        for name, knob in KNOBS.items()
        if knob.is_init_rpc_option and (value := values.get(name)) is not None
    }
