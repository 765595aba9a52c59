"""How a study is opened in its storage: made, read again, or gone on with."""

import math
import warnings
from collections.abc import Callable, Sequence

import optuna

from tuner.errors import UsageError
from tuner.files import OWNERS, limit_to_folder, make_folder
from tuner.plan.config import Config
from tuner.plan.measuring import Measuring
from tuner.plan.study_plan import StudyPlan
from tuner.study.sampled import Sampling
from tuner.study.storage.address import StudyAddress, StudyPlace
from tuner.study.storage.store import StudyStore
from tuner.study.storage.trials import distributions_of, running_trial
from tuner.world.environment import Environment

FORMAT = 5
# In format 4 one failure ended a trial, and no world of a block was repeated.
_READ = (4, FORMAT)
REFUSED = "refused"
"""The note of a study whose budget was too short to begin: the budget that it needs, in seconds.

It has its baseline alone.
"""

# The study is the product's own display; Optuna's log lines would only break into it, such as that
# of a statement that fails.
optuna.logging.set_verbosity(optuna.logging.ERROR)

Tell = Callable[[str], None]
"""Is given a sentence when something goes wrong that the study can do without."""


def ignored(message: str) -> None:
    """Tell nobody."""
    del message


def create_study(
    place: StudyPlace,
    plan: StudyPlan,
    environment: Environment,
    tell: Tell = ignored,
    candidates: Sequence[Config] | None = None,
    sampling: Sampling | None = None,
    *,
    refused: int | None = None,
) -> StudyStore:
    """A new study with one running trial per configuration, the baseline first.

    `candidates` are the plan's, in the order in which they are to be measured. With `sampling` the
    study has the baseline alone: the others come as they are proposed. One that is `refused` has it
    alone, too, until a larger budget adds the others. UsageError if its storage cannot be opened.
    """
    address = place.address
    if address.in_own_folder:
        make_folder(place.folder.root, OWNERS)
    storage = address.storage
    with address.telling_why():
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
        if refused is not None:
            study.set_user_attr(REFUSED, refused)
        _fill(study, plan, environment, candidates or plan.candidates(), sampling)
        store = StudyStore(place, study, tell)
        store.announce()
    except BaseException:
        # An interruption, for example: half a grid must not be taken for the whole of it.
        address.delete()
        raise
    return store


def load_study(place: StudyPlace, tell: Tell = ignored) -> StudyStore:
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
    _check_format(study, address)
    return StudyStore(place, study, tell)


def is_half_made(address: StudyAddress) -> bool:
    """Whether a search was killed while it made the study, which then holds no measurement."""
    study = optuna.load_study(study_name=address.name, storage=address.storage)
    known = study.user_attrs
    if "format" in known:
        return False
    # The plan is what a search writes first; another program's studies have none.
    return "plan" in known or not (known or study.get_trials(deepcopy=False))


def resume_study(
    place: StudyPlace, plan: StudyPlan, environment: Environment, tell: Tell = ignored
) -> StudyStore:
    """The study, to go on with by a plan that differs from its own in the budget at most.

    One that is finished is gone on with if the budget, or the most blocks, have grown, or if what
    was a limit is to be spent now.

    UsageError if it was measured by another plan or on another machine.
    """
    store = load_study(place, tell)
    _check_same(store, plan, environment)
    store.save_unsaved()
    if store.running() or _allows_more(store, plan.measuring):
        # What comes now an older version cannot read.
        store.note("format", FORMAT)
        store.reopen()
        store.note("plan", plan.to_json())
    return store


def _allows_more(store: StudyStore, now: Measuring) -> bool:
    """Whether a finished study has time and blocks left to be gone on with."""
    then = store.plan().measuring
    most, most_then = now.max_blocks or math.inf, then.max_blocks or math.inf
    not_counted = {*(store.noted("set_aside") or ()), *(store.noted("dropped") or ())}
    measured = len(store.blocks() - not_counted)
    is_more = now.budget_s > then.budget_s or (then.until_clear and not now.until_clear)
    return measured < most and (is_more or most > most_then)


def _check_same(store: StudyStore, plan: StudyPlan, environment: Environment) -> None:
    then = store.plan().fingerprint()
    problems = [
        f"{key}: {_plain(then.get(key))} in the study, {_plain(now)} now"
        for key, now in plan.fingerprint().items()
        if then.get(key) != now
    ]
    problems += [
        f"{difference} (then, now)" for difference in store.environment.differences(environment)
    ]
    if problems:
        raise UsageError.about(
            f"the study {plan.name} cannot be resumed: it was measured differently", problems
        )


def _fill(
    study: optuna.Study,
    plan: StudyPlan,
    environment: Environment,
    candidates: Sequence[Config],
    sampling: Sampling | None,
) -> None:
    """What a new study starts with; its format comes last, and says that it is complete."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names([plan.objective.short_heading])
    study.set_user_attr("plan", plan.to_json())
    study.set_user_attr("environment", environment.model_dump())
    distributions = distributions_of(plan.candidates(), plan.subject)
    if sampling is not None:
        study.set_user_attr("sampling", sampling.model_dump(mode="json"))
    for config in candidates if sampling is None else [plan.baseline]:
        study.add_trial(running_trial(config, distributions, plan.subject))
    study.set_user_attr("format", FORMAT)


def _check_format(study: optuna.Study, address: StudyAddress) -> None:
    """UsageError unless this version can read the study."""
    found = study.user_attrs.get("format")
    if found is None:
        raise UsageError(
            f"the study {address.name} in {address} was not created completely, or by another "
            "program; --overwrite deletes it"
        )
    if found not in _READ:
        is_newer = isinstance(found, int) and found > FORMAT
        cure = "upgrade rpc-tuner" if is_newer else "search again with --overwrite"
        raise UsageError(
            f"the study {address.name} has format {found!r}; this version reads formats "
            f"{' and '.join(map(str, _READ))}: {cure}"
        )


def _plain(value: object) -> str:
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return ", ".join(value) or "none"
    return "none" if value is None else str(value).replace("'", "")
