"""A configuration as a person gives it: a table of a plan file, or `KNOB=VALUE` pairs.

Standard library only, for `tuner.run`.
"""

from collections.abc import Mapping

from tuner.errors import UsageError
from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.knobs import KNOBS, Value


def read_config(pairs: list[tuple[str, str]]) -> Config:
    """The configuration in `KNOB=VALUE` pairs; UsageError with every mistake."""
    config, problems = read_table(pairs)
    problems += [
        f"{dimension.knob} must be the same for all roles: give {dimension.knob}=..."
        for dimension, _ in config.items
        if dimension.role != ALL_ROLES and KNOBS[dimension.knob].same_for_all_roles
    ]
    if problems:
        raise UsageError.about("the configuration", problems)
    return config


def read_table(table: object) -> tuple[Config, list[str]]:
    """The configuration in a table of values, or in such pairs; and every mistake."""
    values: dict[Dimension, Value] = {}
    entries, problems = flat_entries(table)
    for key, raw in entries:
        try:
            dimension = Dimension.parse(key)
            if dimension in values:
                problems.append(f"{dimension} is given twice")
            values[dimension] = KNOBS[dimension.knob].read(raw)
        except ValueError as error:
            problems.append(str(error))
    return Config.of(values), problems


def flat_entries(table: object) -> tuple[list[tuple[str, object]], list[str]]:
    """The entries of a table, or of a list of pairs as the command line gives; and the mistakes.

    `{"agent": {"num_worker_threads": 2}}` and `{"agent.num_worker_threads": 2}` read alike.
    """
    if isinstance(table, Mapping):
        entries: list[tuple[str, object]] = []
        for key, value in table.items():
            if isinstance(value, Mapping) and key not in KNOBS and "." not in key:
                entries += [(f"{key}.{knob}", raw) for knob, raw in value.items()]
            else:
                entries.append((key, value))
        return entries, []
    if isinstance(table, list) and all(
        isinstance(each, tuple) and len(each) == 2 for each in table
    ):
        return [(str(key), value) for key, value in table], []
    return [], [f"it must be a table, such as num_worker_threads = [1, 2, 4], got {table!r}"]
