"""Opens a study: claims it for one search, and creates, resumes or only loads it."""

import errno
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import optuna

from tuner.errors import DamagedStorageError, StorageLostError, UsageError
from tuner.files import OWNERS, limit_to_folder, make_folder
from tuner.plan.config import Config
from tuner.plan.measuring import Measuring
from tuner.plan.study_plan import StudyPlan
from tuner.study.folder import is_there_already
from tuner.study.records import Sampling
from tuner.study.storage.address import StudyAddress, StudyPlace
from tuner.study.storage.store import StudyStore
from tuner.study.storage.study_lock import lock_file, study_lock
from tuner.text import first_of
from tuner.world.environment import Environment

FORMAT = 5
NEEDED_S = "refused"  # the note, in format 5, of the budget to go on with: it was too short for all

# Optuna's log lines, such as that of a statement that fails, would break into our own display.
optuna.logging.set_verbosity(optuna.logging.ERROR)

_MOST_NAMED = 3
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_SEALED = {errno.EACCES, errno.EPERM, errno.ENOENT, errno.EIO}

Notify = Callable[[str], None]  # gets a sentence of what goes wrong and the study can do without


@dataclass(frozen=True)
class Claim:
    """A study that no other search measures as long as it is claimed."""

    place: StudyPlace
    resumes: bool  # whether the study exists, and is to be gone on with

    def begin(self) -> None:
        """Remove what an earlier study of this name left, and mark the folder as this study's."""
        address, folder = self.place
        address.delete()
        kept = _own_files(self.place)
        folder.manifest.remove_files(but=kept)
        folder.manifest.begin(address.name, kept)

    def mark_folder(self) -> None:
        """Mark the folder as this study's, if it is not yet."""
        address, folder = self.place
        if folder.manifest.study() is None:
            folder.manifest.begin(address.name, _own_files(self.place))

    def keep_first_run(self) -> None:
        """Keep what a first run left that failed; a later search of the study removes it."""
        folder = self.place.folder
        if folder.first_run.exists():
            self.mark_folder()
            folder.manifest.add(*folder.first_run.glob("*"))


@contextmanager
def claimed(place: StudyPlace, *, resume: bool, overwrite: bool) -> Iterator[Claim]:
    """Claim a study for one search, whose caller then begins or continues it.

    Nothing of an earlier study is touched before that; if it never does, nothing new is left.

    Raises:
        UsageError: another search has the study or its folder, neither `resume` nor `overwrite`
            says what to do with what is there, or the folder is not for it.
    """
    place.folder.check_writable()
    with place.folder.locked(), study_lock(place.address) as hold:
        if place.address.retry is not None:
            place.address.retry.guard = hold
        with _adding_what_helps(place):
            yield _claim(place, resume=resume, overwrite=overwrite)


@contextmanager
def _adding_what_helps(place: StudyPlace) -> Iterator[None]:
    """Add what helps to the error of a damaged study, or of a folder that cannot be written."""
    root = place.folder.root
    inode = root.stat().st_ino
    try:
        yield
    except DamagedStorageError as error:
        if not place.address.in_own_folder:
            raise
        raise UsageError(f"{error}; --overwrite deletes it and begins anew") from error
    except OSError as error:
        named = Path(os.fsdecode(error.filename or "/")).absolute()
        is_ours = root.absolute() in named.parents
        if error.errno not in _FULL and not (is_ours and error.errno in _SEALED):
            raise
        retry = place.address.retry
        kept = retry.write_ahead_log if retry else place.write_ahead_log()
        raise StorageLostError(
            f"the search ends here: the study folder {root} cannot be written "
            f"({os.strerror(error.errno)}). "
            f"{kept.going_on('it can be written')}"
        ) from error
    finally:
        # Removed meanwhile, it may have been made again by who writes a trace there.
        with suppress(OSError):
            if root.stat().st_ino != inode:
                root.chmod(OWNERS)


def _claim(place: StudyPlace, *, resume: bool, overwrite: bool) -> Claim:
    """What is to be done with the study; UsageError if what exists is in the way."""
    address, folder = place
    name = address.name
    try:
        names = address.names()
    except DamagedStorageError:
        if not (overwrite and address.in_own_folder):
            raise
        names = []
    exists, owner = name in names, folder.manifest.study()
    half_made = exists and not overwrite and is_half_made(address)
    where = folder.root if address.in_own_folder else address
    is_usual = folder == StudyPlace.named(name).folder
    owners = [owner] if owner else names if address.in_own_folder else []
    others = [each for each in owners if each != name]
    is_known = owners or (overwrite and folder.manifest.path.is_file())
    locks, own = {*_locks(place)}, {*_own_files(place)}
    unknown = [] if is_known else sorted(file.name for file in {*folder.root.iterdir()} - locks)
    left = owner and not exists and any(file.exists() for file in {*folder.manifest.files()} - own)
    refusals = (
        (resume and not exists and not folder.is_begun, f"there is no study {name} in {where} to "
            "resume: without --resume the same command begins one"),
        (half_made and not resume, f"the study {name} in {where} was not created completely and "
            "holds nothing: --resume or --overwrite begins it anew"),
        (exists and not resume and not overwrite, is_there_already(name, where, is_usual=is_usual)),
        (others, f"the folder {folder.root} holds the study {', '.join(others[:1])}; give {name} "
            "another --out"),
        (unknown, f"the folder {folder.root} holds files that no study wrote "
            f"({first_of(unknown, _MOST_NAMED)}): give --out a new or an empty folder"),
        (left and not overwrite, f"the folder {folder.root} holds the files of a study {name} "
            f"that is not in {where}: --overwrite deletes them, another --out keeps them"),
    )  # fmt: skip
    for applies, why in refusals:
        if applies:
            raise UsageError(why)
    return Claim(place, resumes=exists and resume and not half_made)


def _own_files(place: StudyPlace) -> list[Path]:
    """The files of the folder that a new study keeps: locks, database, and of its first run."""
    files = [*_locks(place), *place.folder.first_run.glob("*")]
    return [*files, place.folder.database] if place.address.in_own_folder else files


def _locks(place: StudyPlace) -> list[Path]:
    folder, file = place.folder, lock_file(place.address)
    is_here = file is not None and file.parent == folder.root.resolve()
    return [folder.lock, folder.root / file.name] if file and is_here else [folder.lock]


def create_study(
    place: StudyPlace,
    plan: StudyPlan,
    environment: Environment,
    notify: Notify = lambda message: None,
    candidates: Sequence[Config] | None = None,
    sampling: Sampling | None = None,
    *,
    needed_s: int | None = None,
) -> StudyStore:
    """A new study with one running trial per configuration, the plan's unless they are in another
    order; with `sampling` the baseline alone. UsageError if its storage cannot be opened."""
    address = place.address
    if address.in_own_folder:
        make_folder(place.folder.root, OWNERS)
    storage = address.storage
    with address.explaining_errors():
        # Nothing is ever sampled: the grid is the plan's.
        study = optuna.create_study(
            storage=storage,
            study_name=address.name,
            direction="maximize" if plan.objective.maximize else "minimize",
            sampler=optuna.samplers.RandomSampler(seed=plan.measuring.seed),
        )
    try:
        if address.in_own_folder:
            limit_to_folder(place.folder.database)
        store = StudyStore(place, study, notify)
        if needed_s is not None:
            store.note(NEEDED_S, needed_s)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names([plan.objective.short_heading])
        store.note("plan", plan.to_json())
        store.note("environment", environment.model_dump())
        if sampling is not None:
            store.note("sampling", sampling.model_dump(mode="json"))
            candidates = [plan.baseline]
        store.add_configs(candidates or plan.candidates(), plan)
        # It says that the study is complete.
        store.note("format", FORMAT)
        store.announce()
    except BaseException:
        # An interruption, for example: half a grid must not be taken for the whole of it.
        address.delete()
        raise
    return store


def load_study(place: StudyPlace, notify: Notify = lambda message: None) -> StudyStore:
    """The study as it was left. UsageError if there is none, or if it cannot be read."""
    address = place.address
    try:
        study = optuna.load_study(
            study_name=address.name,
            storage=address.storage,
            sampler=optuna.samplers.RandomSampler(),
        )
    except KeyError:
        raise UsageError(f"there is no study {address.name} in {address}") from None
    found = study.user_attrs.get("format")
    if found is None:
        raise UsageError(
            f"the study {address.name} in {address} was not created completely, or by another "
            "program; --overwrite deletes it"
        )
    if found != FORMAT:
        is_newer = isinstance(found, int) and found > FORMAT
        cure = "upgrade rpc-tuner" if is_newer else "search again with --overwrite"
        raise UsageError(
            f"the study {address.name} has format {found!r}; this version reads format {FORMAT}: "
            f"{cure}"
        )
    return StudyStore(place, study, notify)


def is_half_made(address: StudyAddress) -> bool:
    """Whether a search was killed while it made the study, which then holds no measurement."""
    study = optuna.load_study(study_name=address.name, storage=address.storage)
    known = study.user_attrs
    # The plan is what a search writes first; another program's studies have none.
    is_begun = "plan" in known or not (known or study.get_trials(deepcopy=False))
    return is_begun and "format" not in known


def resume_study(
    place: StudyPlace,
    plan: StudyPlan,
    environment: Environment,
    notify: Notify = lambda message: None,
) -> StudyStore:
    """The study, to go on with by a plan that differs in the budget at most; UsageError if another
    plan or machine measured it. A finished one goes on with a larger budget."""
    store = load_study(place, notify)
    _check_same(store, plan, environment)
    store.save_unsaved()
    if store.running() or _allows_more(store, plan.measuring):
        store.reopen()
        store.note("plan", plan.to_json())
    return store


def _allows_more(store: StudyStore, now: Measuring) -> bool:
    """Whether a finished study has time and blocks left to be gone on with."""
    then = store.plan().measuring
    most, most_then = now.max_blocks or math.inf, then.max_blocks or math.inf
    is_longer = now.budget_s > then.budget_s or (then.until_clear and not now.until_clear)
    has_more = is_longer or most > most_then or (now.exhaustive and not then.exhaustive)
    return has_more and store.blocks() < most


def _check_same(store: StudyStore, plan: StudyPlan, environment: Environment) -> None:
    then, differences = store.plan().fingerprint(), store.environment.differences(environment)
    problems = [
        f"{key}: {_plain(then.get(key))} in the study, {_plain(now)} now"
        for key, now in plan.fingerprint().items()
        if then.get(key) != now
    ]
    problems += [f"{difference} (then, now)" for difference in differences]
    if problems:
        raise UsageError.about(
            f"the study {plan.name} cannot be resumed: it was measured differently", problems
        )


def _plain(value: object) -> str:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    return "none" if value is None else str(value).replace("'", "")
