"""The file of a recommendation as plain values, and what a process takes from it.

Standard library only: programs load it where torch is the only package.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tuner.errors import UsageError
from tuner.files import read_bounded
from tuner.machine import COMPARED, COMPARED_BOUND
from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.knobs import DEFAULT_WORD, INTRA_OP_THREADS, Value
from tuner.text import command, did_you_mean

FORMAT = 3


@dataclass(frozen=True, kw_only=True)
class ProcessValues:
    """What the processes of each role get, and where that was measured."""

    config: Config
    own: Config | None
    """What the program itself gives each role, which holds where `config` says nothing."""
    intra_op_threads: Mapping[str, int]
    """`torch.set_num_threads` of each role, as measured."""
    roles: tuple[str, ...]
    """In order of first rank, each once."""
    role_patterns: tuple[tuple[str, str], ...]
    """Which ranks of a program have which role; see `tuner.roles.role_of`."""
    machine: Mapping[str, object]
    """What `tuner.machine.machine_differences` takes; None where the file does not say it."""

    def of_role(self, role: str) -> dict[str, Value]:
        """The values of the knobs of a role; see `values_of_role`."""
        return values_of_role(role, self.config, self.own, self.intra_op_threads)

    @property
    def whole_config(self) -> Config:
        """The configuration; of bound ranks that had fewer intra-op threads than the program gives
        them also that number."""
        own = Config.of({}) if self.own is None else self.own
        threads = {
            Dimension(role, INTRA_OP_THREADS.name): count
            for role, count in self.intra_op_threads.items()
            if self.config.binds and count != own.for_role(role).get(INTRA_OP_THREADS.name, count)
        }
        return Config.of({**threads, **self.config.values})


def values_of_role(
    role: str, config: Config, own: Config | None, intra_op_threads: Mapping[str, int]
) -> dict[str, Value]:
    """What a process of the role gets, by knob, its intra-op threads included."""
    given = {} if own is None else own.for_role(role)
    threads = {INTRA_OP_THREADS.name: intra_op_threads[role]}
    return {**given, **threads, **config.for_role(role)}


def read_process_values(path: Path) -> ProcessValues:
    """What processes take from a recommendation; UsageError if they cannot. No more is read."""
    document = read_document(path)
    try:
        return process_values_of(document)
    except ValueError as error:
        raise UsageError(f"{path} is damaged: {error}") from None


def process_values_of(document: Mapping[str, Any]) -> ProcessValues:
    """The same of the file's content; ValueError says what is wrong, and where."""
    environment = _object(document, "environment")
    ranks = document.get("ranks")
    if not isinstance(ranks, list) or not ranks:
        raise ValueError(f"ranks must be a list of processes, got {short(ranks)}")
    for place, rank in enumerate(ranks):
        if not isinstance(rank, dict) or not isinstance(rank.get("role"), str):
            raise ValueError(f"ranks.{place} must name its role, got {short(rank)}")
    roles = tuple(dict.fromkeys(rank["role"] for rank in ranks))
    threads = _object(environment, "intra_op_threads", "environment.")
    if missing := [role for role in roles if role not in threads]:
        raise ValueError(f"environment.intra_op_threads lacks {', '.join(map(repr, missing))}")
    for role in roles:
        if type(threads[role]) is not int:
            wrong = f"must be a whole number, got {short(threads[role])}"
            raise ValueError(f"environment.intra_op_threads.{role} {wrong}")
        INTRA_OP_THREADS.read(threads[role])  # it refuses what is out of range
    machine = {key: environment.get(key) for key in COMPARED_BOUND}
    if unknown := [key for key in COMPARED if machine[key] is None]:
        raise ValueError(f"environment.{unknown[0]} is missing")
    own = environment.get("own")
    return ProcessValues(
        config=_config_of(document.get("config"), "config", roles),
        own=None if own is None else _config_of(own, "environment.own", roles),
        intra_op_threads=threads,
        roles=roles,
        role_patterns=_role_patterns(environment.get("program")),
        machine=machine,
    )


def _object(document: Mapping[str, Any], key: str, within: str = "") -> Mapping[str, Any]:
    found = document.get(key)
    if found is None:
        raise ValueError(f"{within}{key} is missing")
    if not isinstance(found, Mapping):
        raise ValueError(f"{within}{key} must be an object, got {short(found)}")
    return found


def _role_patterns(program: object) -> tuple[tuple[str, str], ...]:
    pairs = program.get("role_patterns", []) if isinstance(program, Mapping) else []
    if not isinstance(pairs, list):
        raise ValueError(f"environment.program.role_patterns must be a list, got {short(pairs)}")
    for pair in pairs:
        if not isinstance(pair, list) or [*map(type, pair)] != [str, str]:
            raise ValueError(
                f"environment.program.role_patterns must hold pairs, got {short(pair)}"
            )
    return tuple((role, pattern) for role, pattern in pairs)


def _config_of(raw: object, place: str, roles: Sequence[str]) -> Config:
    if raw is None:
        raise ValueError(f"{place} is missing")
    try:
        config = strict_config(raw)
    except ValueError as error:
        said = str(error)
        raise ValueError(said if said.startswith(place) else f"{place}: {said}") from None
    check_roles(config, place, roles)
    return config


def strict_config(raw: object) -> Config:
    """A configuration as rpc-tuner writes it; ValueError for another spelling, as "8" for 8."""
    config = Config.from_json(raw)
    assert isinstance(raw, Mapping)
    for role, knobs in config.to_json().items():
        for knob, value in knobs.items():
            given = raw[role][knob]
            if given != value and not (value is None and given == DEFAULT_WORD):
                raise ValueError(f"{role}.{knob} must be {value!r}, got {given!r}")
    return config


def check_roles(config: Config, place: str, roles: Sequence[str]) -> None:
    """ValueError if the configuration names a role that there is not."""
    for dimension, _ in config.items:
        if dimension.role not in (ALL_ROLES, *roles):
            tail = did_you_mean(dimension.role, roles)
            raise ValueError(f"{place}: unknown role {dimension.role!r}{tail}")


def read_document(path: Path) -> Mapping[str, Any]:
    """The file's content, of which its format alone is checked; UsageError if it cannot be read."""
    document = _parsed(path)
    found = document.get("format")
    if not isinstance(found, int) or isinstance(found, bool):
        wrong = "is missing" if found is None else f"must be {FORMAT}, got {short(found)}"
        raise UsageError(f"{path} is damaged: format {wrong}")
    if found == FORMAT:
        return document
    age, cure = "a newer", "upgrade rpc-tuner"
    if found < FORMAT:
        age, cure = "an older", f"search again{_search_command(document)}"
    reads = f"(format {found}; this version reads format {FORMAT})"
    raise UsageError(f"{path} was written by {age} rpc-tuner {reads}: {cure}")


def _parsed(path: Path) -> Mapping[str, Any]:
    try:
        content = read_bounded(path)
    except OSError as error:
        # Other commands take a study's name or folder.
        hint = ""
        if path.suffix not in (".json", ".toml"):
            hint = "; a study's file is studies/NAME/recommended.json"
        raise UsageError(f"cannot read {path}: {error.strerror}{hint}") from None
    except ValueError as error:  # a name that no file can have
        raise UsageError(f"cannot read {path}: {error}") from None
    if path.suffix == ".py":
        raise UsageError(
            f"{path} is a Python file, and a configuration is read from JSON or TOML; if it is an "
            "export to Python, import it, or export with --format json"
        )
    is_toml = path.suffix.lower() == ".toml"
    try:
        text = content.decode()
        document = tomllib.loads(text) if is_toml else json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        kind = "TOML" if is_toml else "JSON"
        raise UsageError(f"{path} is damaged: not valid {kind}: {error}") from None
    if not isinstance(document, Mapping):
        raise UsageError(f"{path} is damaged: it must hold an object, got {short(document)}")
    return document


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _search_command(document: Mapping[str, Any]) -> str:
    """The command of the search that an older document rests on; empty if it does not say."""
    study, environment = document.get("study"), document.get("environment")
    workload = environment.get("workload") if isinstance(environment, Mapping) else None
    if not isinstance(study, str) or not isinstance(workload, str):
        return ""
    return f": {command('search', '--workload', workload, '--study', study, '--overwrite')}"


def short(value: object) -> str:
    """A value for a message; a long one is cut."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
