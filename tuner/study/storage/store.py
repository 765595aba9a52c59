"""The study in its Optuna storage: one trial per configuration, with all its measurements.

A trial's intermediate values are its objective by block. The measurements themselves are system
attributes, as Optuna's artifacts are: a dashboard does not show these, and so shows a person the
summary and not every step time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import Trial, TrialState, create_trial
from pydantic import ValidationError

from tuner.errors import DamagedStorageError
from tuner.plan.config import Config, Dimension
from tuner.plan.study_plan import StudyPlan
from tuner.study.records import Record
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.artifacts import Attachments, put_note
from tuner.study.storage.trials import (
    RECORD_KEY,
    StoredRecord,
    TrialFacts,
    distributions_of,
    records_of,
    running_trial,
    trials_of,
    values_of,
)
from tuner.text import plural
from tuner.world.environment import Environment
from tuner.world.measurement import Failure, Measurement

# How a trial ends: it came through, it did not, or it is out for its failures.
Ending = Literal["COMPLETE", "PRUNED", "FAIL"]
_LATER = "at the end of the search; reload this page then."  # it does not ask again by itself
CONTINUES = "continues"  # the number of the trial that a trial goes on with
# What it raises to use values that no version wrote.
_DAMAGE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


class StudyStore:
    """A study that is open for measuring: reads what is there, adds what comes; `notify` is given a
    sentence when something goes wrong that the study can do without."""

    def __init__(
        self, place: StudyPlace, study: optuna.Study, notify: Callable[[str], None]
    ) -> None:
        self.folder = place.folder
        # The URL of the storage, without a password; None where it is in the folder.
        self.storage_elsewhere = None if place.address.in_own_folder else str(place.address)
        retry = place.address.retry
        self._write_ahead_log = retry.write_ahead_log if retry else place.write_ahead_log()
        self._notify = notify
        self._study = study
        self._storage = place.address.storage
        self._study_id = self._storage.get_study_id_from_name(study.study_name)
        self._trials: dict[int, Trial] = {}
        self._ids: dict[int, int] = {}
        self._distributions: dict[Dimension, BaseDistribution] | None = None
        self._attachments = Attachments(self._storage, study, self._study_id, place.folder, notify)

    def plan(self) -> StudyPlan:
        """The plan of the study. UsageError if damaged."""
        with self.reading("plan"):
            return StudyPlan.from_json(self._study.user_attrs["plan"])

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Turn what a damaged study makes its reader raise into an error that says where."""
        try:
            yield
        except _DAMAGE as error:
            raise self._damaged(what, str(error).split("\n")[0]) from None

    def _damaged(self, what: str, reason: str) -> DamagedStorageError:
        return DamagedStorageError(
            f"the study {self._study.study_name} is damaged: {what}: {reason}"
        )

    @property
    def environment(self) -> Environment:
        """The machine and the software that it was measured with."""
        with self.reading("environment"):
            return Environment.model_validate(self._study.user_attrs["environment"])

    def configs(self) -> list[Config]:
        """The configuration of every trial, by trial number; the baseline is number 0."""
        with self.reading("config"):
            found = [
                Config.from_json(trial.user_attrs["config"])
                for trial in trials_of(self._storage, self._study_id)
                if CONTINUES not in trial.user_attrs
            ]
            if not found:
                raise ValueError("it has no configurations")
            return found

    def add_configs(self, configs: Sequence[Config], plan: StudyPlan) -> None:
        """Add running trials of configurations that were not there before."""
        if self._distributions is None:
            self._distributions = distributions_of(plan.candidates(), plan.subject)
        for config in configs:
            self._study.add_trial(running_trial(config, self._distributions, plan.subject))

    def outcomes(self) -> list[tuple[Config, TrialState, list[float]]]:
        """Each configuration: how its trial ended, and the objective in its blocks, in its unit."""
        known, latest = values_of(self._storage, self._study_id), self._latest()
        with self.reading("trials"):
            return [
                (config, latest[number].state, [*known.get(latest[number].number, {}).values()])
                for number, config in enumerate(self.configs())
            ]

    def records(self) -> list[Record]:
        """Every world measured so far, in the order of blocks."""
        found = records_of(self._storage, self._study_id, self._record)
        return sorted(found, key=lambda record: record.key)

    def blocks(self) -> int:
        """The number of blocks that have a world, and count."""
        keys = records_of(self._storage, self._study_id, lambda stored: stored.key)
        with self.reading("records"):
            numbers = {int(key.removeprefix(RECORD_KEY).partition("_")[0]) for key in keys}
        left_out = {*(self.noted("set_aside") or ()), *(self.noted("dropped") or ())}
        return sum(number >= 0 for number in numbers - left_out)

    def _record(self, stored: StoredRecord) -> Record:
        document, is_text = stored.document, isinstance(stored.document, str)
        try:
            return (Record.model_validate_json if is_text else Record.model_validate)(document)
        except ValidationError as error:
            what = f"trial {stored.trial_number}, {stored.key}"
            raise self._damaged(what, error.errors()[0]["msg"]) from None

    def eliminated(self) -> dict[int, str]:
        """The eliminated trials, each with the reason."""
        latest = self._latest().items()
        return {n: reason for n, trial in latest if (reason := trial.user_attrs.get("eliminated"))}

    def add(self, record: Record, plan: StudyPlan) -> None:
        """Keep one world's outcome; on StorageLostError the write-ahead log has it."""
        self._write_ahead_log.append(record)
        self._put(record)
        self._write_ahead_log.clear()
        self._show(record, plan)

    def save_unsaved(self) -> None:
        """Write what an earlier session kept beside the storage, which was away; nothing twice."""
        if not (left := self._write_ahead_log.read()):
            return
        known, running = {each.key for each in self.records()}, {*self.running()}
        new = [each for each in left if each.key not in known]
        fitting = [each for each in new if each.trial in running]
        for record in fitting:
            self._put(record)
        self._write_ahead_log.discard()
        if fitting:
            worlds = plural(len(fitting), "world")
            self._notify(f"what waited in {self.folder.unsaved} is in the storage now: {worlds}")
        if late := len(new) - len(fitting):
            self._notify(f"{plural(late, 'world')} kept beside the storage came too late to count")

    def _put(self, record: Record) -> None:
        """Write an outcome under a key of its own: to write it twice is to write it once."""
        which = f"{'_again' * record.again}{f'_{record.attempt}' if record.attempt else ''}"
        key, document = f"{RECORD_KEY}{record.block:06d}{which}", record.model_dump(mode="json")
        self._storage.set_trial_system_attr(self._trial_id(record.trial), key, document)

    def repair(self, records: Sequence[Record], plan: StudyPlan) -> None:
        """Finish what a session that died left between keeping an outcome and showing it."""
        latest, values = self._latest(), values_of(self._storage, self._study_id)
        for record in records:
            trial = latest[record.trial]
            is_shown = record.block in values.get(trial.number, ())
            if trial.state == TrialState.RUNNING and not is_shown:
                self._show(record, plan)

    def _show(self, record: Record, plan: StudyPlan) -> None:
        """Put an outcome where Optuna's own tools look for it."""
        outcome, number, is_trace = record.outcome, record.trial, record.phase == "trace"
        if isinstance(outcome, Measurement) and not is_trace:
            if record.phase != "calibration" and not record.again:
                value = plan.objective.value(outcome)
                # Not by the trial: it would be read with all of its worlds first.
                trial_id = self._trial_id(number)
                self._storage.set_trial_intermediate_value(trial_id, record.block, value)
            return
        trial = self._trial(number)
        self._attachments.attach_world(trial, Config.from_json(trial.user_attrs["config"]), record)
        if isinstance(outcome, Failure):
            facts = {"failure": outcome.failure, "failure_reason": outcome.message}
            self._annotate(number, {"trace_failure": outcome.message} if is_trace else facts)
        elif outcome.trace is not None:
            self._annotate(number, {"diagnosis": outcome.trace.diagnosis})

    def eliminate(self, number: int, reason: str | None) -> None:
        """Note why a trial is out of the race, or that it is back in it."""
        # Not by the trial: it would be read with all of its worlds first.
        self._storage.set_trial_user_attr(self._trial_id(number), "eliminated", reason)

    def end(
        self, number: int, state: Ending, value: float | None, facts: Mapping[str, float | str],
        excess: Mapping[str, float] = {},
    ) -> None:  # fmt: skip
        """End a trial, with its value, if any, what is known of it, and how far it is beyond each
        limit, as Optuna notes it."""
        for limit, beyond in excess.items():
            self._trial(number).set_constraint(limit, beyond)
        self._annotate(number, facts)
        values = None if value is None or state == "FAIL" else [value]
        # Not by `tell`, which would take the objective of the last block of one that is pruned: no
        # other trial's last block compares with that.
        self._storage.set_trial_state_values(self._trial_id(number), TrialState[state], values)

    def running(self) -> list[int]:
        """The trials that are neither eliminated, failed nor complete."""
        return [n for n, trial in self._latest().items() if trial.state == TrialState.RUNNING]

    def reopen(self) -> None:
        """Let the study be gone on with, by another trial for each that has ended and is final."""
        self.note("answer", None)
        for number, trial in self._latest().items():
            if not trial.state.is_finished():
                continue
            ended = self._storage.get_trial(trial.trial_id)
            kept = {key: ended.user_attrs.get(key) for key in ("label", "config", "eliminated")}
            going_on = create_trial(
                state=TrialState.RUNNING,
                params=ended.params,
                distributions=ended.distributions,
                user_attrs={**kept, CONTINUES: number},
                intermediate_values=ended.intermediate_values,
            )
            self._study.add_trial(going_on)
        self._trials.clear()
        self._ids.clear()

    def note(self, key: str, value: Any) -> None:
        """Keep a fact about the study as a whole."""
        self._study.set_user_attr(key, value)

    def noted(self, key: str) -> Any:
        """A fact kept by `note`, or None."""
        return self._study.user_attrs.get(key)

    def note_answer(self, number: int) -> None:
        """Say in the study which trial is to be used."""
        trial = self._trial(number)
        self.note("answer", f"trial {trial.number}: {trial.user_attrs['label']}")

    @property
    def measured_at(self) -> datetime:
        """When its last session ended, as last noted; in UTC."""
        noted = self.noted("measured_at")
        with self.reading("measured_at"):
            return datetime.fromisoformat(noted) if noted else datetime.now(UTC)

    @property
    def elapsed_s(self) -> float:
        """Wall time spent on this study in all its sessions, as last noted."""
        with self.reading("elapsed_s"):
            return float(self.noted("elapsed_s") or 0.0)

    def announce(self) -> None:
        """Say in the dashboard that the study is being measured."""
        put_note(self._study, f"Being measured. The verdict will be here {_LATER}")
        for trial in map(self._trial, self.running()):
            label, numbers = trial.user_attrs["label"], f"The numbers will be here {_LATER}"
            put_note(trial, f"## {label}\n\nBeing measured. {numbers}")

    def publish(self, note: str, trial_notes: Mapping[int, str]) -> None:
        """Leave, or replace, what optuna-dashboard shows: notes in Markdown, and the files."""
        put_note(self._study, note)
        for number, text in trial_notes.items():
            put_note(self._trial(number), text)
        self._attachments.attach_answer()

    def _annotate(self, number: int, facts: Mapping[str, float | str]) -> None:
        for name, value in facts.items():
            self._trial(number).set_user_attr(name, value)

    def _latest(self) -> dict[int, TrialFacts]:
        """The trials by number; of one that was continued, the one that goes on."""
        latest: dict[int, TrialFacts] = {}
        for trial in trials_of(self._storage, self._study_id):
            latest[trial.user_attrs.get(CONTINUES, len(latest))] = trial
        return latest

    def _trial_id(self, number: int) -> int:
        # Finding it in the storage reads all trials.
        if number not in self._ids:
            self._ids = {trial: found.trial_id for trial, found in self._latest().items()}
        return self._ids[number]

    def _trial(self, number: int) -> Trial:
        # Making one reads the trial from the storage, with all of its worlds.
        if number not in self._trials:
            self._trials[number] = Trial(self._study, self._trial_id(number))
        return self._trials[number]
