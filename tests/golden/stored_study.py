"""A study as a JSON file, and back into a database: independent of Optuna's tables."""

import json
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import distribution_to_json, json_to_distribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from testing.results import ENVIRONMENT
from tuner.study.folder import StudyFolder

MEASURED_AT = "2026-11-21T09:30:00+00:00"
"""When every stored study was measured."""
# What the dashboard shows is made of the rest.
_NOT_KEPT = ("dashboard:", "artifacts:")


def dumped(folder: StudyFolder, name: str) -> str:
    """The study of a folder, as if it had been measured on one machine at one time."""
    study = optuna.load_study(study_name=name, storage=f"sqlite:///{folder.database}")
    here = {"environment": ENVIRONMENT.model_dump(mode="json"), "measured_at": MEASURED_AT}
    document: dict[str, Any] = {
        "name": name,
        "direction": study.direction.name,
        "user_attrs": {**study.user_attrs, **here},
        "system_attrs": _kept(study._storage.get_study_system_attrs(study._study_id)),
    }
    trials = map(_trial, study.get_trials(deepcopy=False))
    lines = ",\n".join(json.dumps(trial, ensure_ascii=False) for trial in trials)
    return f"[{json.dumps(document, ensure_ascii=False, indent=1)},\n{lines}]\n"


def load(path: Path, folder: StudyFolder) -> None:
    """Make the study of a file in a folder, in a new database."""
    document, *trials = json.loads(path.read_text(encoding="utf-8"))
    folder.root.mkdir(parents=True)
    study = optuna.create_study(
        study_name=document["name"],
        storage=f"sqlite:///{folder.database}",
        direction=document["direction"].lower(),
    )
    for key, value in document["user_attrs"].items():
        study.set_user_attr(key, value)
    for key, value in document["system_attrs"].items():
        study._storage.set_study_system_attr(study._study_id, key, value)
    study.add_trials([_read_trial(trial) for trial in trials])


def _trial(trial: FrozenTrial) -> dict[str, Any]:
    return {
        "state": trial.state.name,
        "values": trial.values,
        "params": trial.params,
        "distributions": {
            name: json.loads(distribution_to_json(distribution))
            for name, distribution in trial.distributions.items()
        },
        "user_attrs": trial.user_attrs,
        "system_attrs": _kept(trial.system_attrs),
        "intermediate_values": trial.intermediate_values,
    }


def _read_trial(kept: dict[str, Any]) -> FrozenTrial:
    distributions, steps = kept["distributions"].items(), kept["intermediate_values"].items()
    read = {
        "state": TrialState[kept["state"]],
        "distributions": {
            name: json_to_distribution(json.dumps(each)) for name, each in distributions
        },
        "intermediate_values": {int(step): value for step, value in steps},
    }
    return create_trial(**{**kept, **read})


def _kept(attributes: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in attributes.items() if not key.startswith(_NOT_KEPT)}
