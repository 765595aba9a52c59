"""What is said below the verdict: why this one, what else may be, how sure, what was tried."""

import itertools
import math
import re
from collections.abc import Iterator

from tuner.plan.config import Config
from tuner.plan.knobs import CPU_BINDING, INTRA_OP_THREADS
from tuner.plan.program_spec import intra_op_text
from tuner.present.configurations import named
from tuner.present.failures_told import failing_sentences, failure_lines
from tuner.present.knob_sentences import (
    bad_value_sentences,
    edge_sentences,
    forecast_alone_sentence,
    gains_sentence,
    no_forecast_sentence,
    not_reached_sentence,
    role_sentence,
    together_sentences,
    tried_sentences,
    unmeasured_sentences,
)
from tuner.present.wording import PREFERENCES, ends, epsilon, fast, faster_or_slower, interval_cell
from tuner.process_knobs import EQUAL
from tuner.study.answer import StudyAnswer
from tuner.study.metrics import PARALLELISM_MEAN
from tuner.study.rows import PassedOver, Preference, Reason, TrialRow
from tuner.text import UNTOLD, in_times, plural, share, shortened, whole_percent

_MOST_REASONS = 3
_MOST_OF_ONE_REASON = 4
"""More configurations of one reason are counted."""
_MOST_ADVISED, _MOST_REASON = 3, 240
"""Sentences of advice, and characters of why a configuration failed."""
_CHANGED = 1.25
_MOST_OPEN = 2
"""More configurations that may be better are counted."""
_BEGINNINGS = ("The ", "Too ", "Communication ")
"""Of what names a limit; else it begins with the name of a process."""
_MOST_LEAST = 1.0
"""A smallest gain above this says that nothing could have been shown."""


def sentences_of(answer: StudyAnswer) -> list[str]:
    """What there is to say of the answer after its verdict, as a reader would ask."""
    said = (
        no_calls_sentence(answer),
        _open_calls_sentence(answer),
        _change_sentence(answer),
        choice_sentence(answer),
        tied_sentence(answer),
        binding_sentence(answer),
        busy_sentence(answer),
        not_excluded_sentence(answer),
        as_good_sentence(answer),
        noise_sentence(answer),
    )
    return [
        *failing_sentences(answer),
        *together_sentences(answer),
        *filter(None, said),
        *_forecast_sentences(answer),
        *next_searches(answer),
        *tried_sentences(answer),
        *bad_value_sentences(answer),
        *unmeasured_sentences(answer),
    ]


def _forecast_sentences(answer: StudyAnswer) -> Iterator[str]:
    """Why there is no forecast, or what was measured otherwise, beyond both intervals."""
    if answer.no_forecast and not answer.not_reached:
        yield no_forecast_sentence(answer)
    if not any(row.forecast for row in answer.rows):
        return
    yield (
        "The forecasts are from the baseline's trace. They set the order of measuring, and decide "
        "nothing."
    )
    for row in answer.rows:
        if row.forecast is None:
            continue
        found, measured = row.forecast.speedup, row.against_baseline
        if found is None:
            if row.is_measured:
                yield f"{row.label} was forecast to deadlock, and did not."
        elif measured is not None and measured.ratio.is_told:
            seen = measured.ratio
            if found.low > seen.high or found.high < seen.low:
                yield (
                    f"{row.label} is {interval_cell(seen)} times as {fast(answer)}. Forecast was "
                    f"{interval_cell(found)}. The model does not know caches, or what switching "
                    "between threads costs."
                )


def why_sentences(answer: StudyAnswer) -> list[str]:
    """What limits the baseline, or why that is not known, and what the best changed, as one
    paragraph of two sentences."""
    said = []
    row = answer.why.get("baseline")
    if row and row.no_trace:
        reason = _short_reason(answer.files.with_path(row.no_trace))
        said.append(f"the baseline has no trace: {reason}.")
    elif row and (limit := _limit_of(row)):
        if limit.startswith(_BEGINNINGS):
            limit = limit[0].lower() + limit[1:]
        said.append(f"in the baseline, {limit}")
    if answer.verdict == "better":
        said += filter(None, [gains_sentence(answer) or _parallelism_sentence(answer)])
    return [f"Why: {' '.join(said)}"] if said else []


def _parallelism_sentence(answer: StudyAnswer) -> str | None:
    """That the best changed how many calls are served at once; None if it did not, by its trace."""
    before, now = (
        answer.why[name].metrics.get(PARALLELISM_MEAN.name, math.nan)
        if name in answer.why
        else math.nan
        for name in ("baseline", "best")
    )
    if is_changed(before, now):
        return f"{answer.best} changed the parallelism from {before:.1f} to {now:.1f}."
    return None


def is_changed(before: float, now: float) -> bool:
    """Whether a metric differs by so much that it may explain a time; false for NaN."""
    return now >= before * _CHANGED or now <= before / _CHANGED


def _limit_of(row: TrialRow) -> str | None:
    """What of a diagnosis names the limit, or several; None where there is no clear one."""
    sentences = re.split(r"(?<=\.) (?=\S)", row.diagnosis or "")
    for each, following in itertools.pairwise([*sentences, ""]):
        if several := re.match(r"\w+ things limit (.*)\.$", each):
            # The largest of them.
            return re.sub(r"^F(or .*?) it ", rf"f\1 of the time {several[1]} ", following)
        if re.search(r" (is|are) the limit\b", each):
            return each
    return None


def advice_of(answer: StudyAnswer) -> list[str]:
    """The few sentences that change what a reader should do."""
    is_found = answer.verdict in ("better", "tie")
    may_be = [answer.by_trial[trial].config for trial in answer.not_excluded if is_found]
    known = (
        no_calls_sentence(answer),
        _open_calls_sentence(answer),
        _change_sentence(answer),
        not_reached_sentence(answer),
        forecast_alone_sentence(answer),
        _front_sentence(answer),
        *failing_sentences(answer),
        *map(_short_reason, failure_lines(answer)),
        *limit_sentences(answer),
        busy_sentence(answer),
        _open_sentence(answer, may_be),
        *next_searches(answer),
    )
    return [*filter(None, known)][:_MOST_ADVISED]


def _open_sentence(answer: StudyAnswer, configs: list[Config]) -> str | None:
    """What may be better than what is recommended; None where nothing may."""
    if not configs:
        return None
    who = named(configs)
    if len(configs) > _MOST_OPEN:
        who = f"{len(configs)} configurations"
    return f"Not ruled out (open): {who} may be {faster_or_slower(answer)[0]}."


def _front_sentence(answer: StudyAnswer) -> str | None:
    """What is on the Pareto front; None where there is none."""
    front = answer.front
    if front is None:
        return None
    among = named([answer.by_trial[trial].config for trial in front.trials])
    return f"The best of both {front.first.name} and {front.second.name}: {among}."


def next_searches(answer: StudyAnswer) -> list[str]:
    """What to search for next: the best value first, then the roles that need it."""
    return [*edge_sentences(answer)] or [*filter(None, [role_sentence(answer)])]


def limit_sentences(answer: StudyAnswer) -> list[str]:
    """Which configurations break a limit, and by how much."""
    groups: dict[str, list[Config]] = {}
    for row in answer.rows:
        if row.broken and not answer.none_feasible:
            groups.setdefault(row.broken_text or "", []).append(row.config)
    return [f"Breaks a limit: {named(configs)} ({broken})." for broken, configs in groups.items()]


def no_calls_sentence(answer: StudyAnswer) -> str | None:
    """That nothing that was traced makes a call; None where something does, or no trace tells."""
    counted = [detail.calls for detail in answer.details.values() if detail.calls is not None]
    if not counted or any(counted):
        return None
    if answer.plan.subject.kind == "program":
        return "The traced runs made no RPC call, so no option of RPC can matter."
    return (
        "The traced steps made no RPC call, so no option of RPC can matter. Make the calls in "
        "step(), and wait there for their results."
    )


def _open_calls_sentence(answer: StudyAnswer) -> str | None:
    """That a step ends before its calls: what is timed then is not what is tuned."""
    most = max((detail.open_calls or 0 for detail in answer.details.values()), default=0)
    if not most:
        return None
    return (
        f"step() does not wait for its calls: {plural(most, 'call')} had no result yet when it "
        "ended. Wait for them in step(), or their time is not measured."
    )


def _change_sentence(answer: StudyAnswer) -> str | None:
    """The change of the code that may gain more than what is recommended; None if none may."""
    best = answer.better_change
    if best is None:
        return None
    times = in_times(best.ratio, best.ratio_low, best.ratio_high)
    return f"A change of the code may gain more: {best.text}: {times}, a forecast."


def choice_sentence(answer: StudyAnswer) -> str | None:
    """Why not what stands above the recommended configuration; None where nothing does."""
    groups: dict[tuple[Reason, Preference | None], list[PassedOver]] = {}
    for each in answer.passed_over:
        groups.setdefault((each.reason, each.preference), []).append(each)
    said = (f"{_clause(answer, group)}." for group in groups.values())
    return " ".join(itertools.islice(said, _MOST_REASONS)) or None


def _short_reason(line: str) -> str:
    """Why a configuration failed, not too long, and where its evidence is."""
    reason, *evidence = line.rsplit("; see ", 1)
    return "; see ".join([shortened(reason, _MOST_REASON), *evidence])


def _clause(answer: StudyAnswer, group: list[PassedOver]) -> str:
    first, several = group[0], len(group) > 1
    rows = [answer.by_trial[each.trial] for each in group]
    who = named([row.config for row in rows])
    if len(group) > _MOST_OF_ONE_REASON:
        who = plural(len(group), "configuration")
    better, look = faster_or_slower(answer)[0], "look" if several else "looks"
    match first.reason:
        case "limit":
            broken = "break a limit" if several else f"breaks a limit ({rows[0].broken_text})"
            return f"{who} would be ahead, but {broken}"
        case "unreliable":
            return f"{who} would be ahead, but {'fail' if several else 'fails'} too often"
        case "lost-calls":
            less = "may do less work" if several else rows[0].lost
            return f"{who} would be ahead, but {less}"
        case "few-blocks":
            return f"{who} {look} {better}, in too few blocks to tell"
        case "not-shown":
            return f"{who} {look} {better}, which is not shown where so many are compared"
    by = ""
    if not several and first.paired is not None and first.paired.ratio.is_told:
        by = f" ({ends(first.paired.ratio)} times as {fast(answer)})"
    preferred = ""
    if first.preference is not None:
        preferred = f", and {answer.best} {PREFERENCES[first.preference]}"
    if first.reason == "not-told-apart":
        return f"{who} cannot be told apart from {answer.best}{by}{preferred}"
    are = "are" if several else "is"
    return f"{who} {are} less than {epsilon(answer)} {better}{by}{preferred}"


def tied_sentence(answer: StudyAnswer) -> str | None:
    """What else is about as fast, as far as measured; None if nothing is."""
    if answer.best is None or not answer.tied:
        return None
    tied = f"Within {epsilon(answer)} of the best, as far as measured"
    return f"{tied}: {named(answer.tied)}."


def binding_sentence(answer: StudyAnswer) -> str | None:
    """For whom binding is, where it is recommended."""
    best, subject = answer.best, answer.plan.subject
    if best is None or not best.binds:
        return None
    now, own = intra_op_text(subject, best), intra_op_text(subject)
    names_threads = any(each.knob == INTRA_OP_THREADS.name for each, _ in best.items)
    fewer = "" if names_threads or now == own else (
        f"Ranks so bound have fewer intra-op threads: {now} instead of {own}, as many as logical "
        "CPUs. "
    )  # fmt: skip
    return (
        f"{fewer}{CPU_BINDING.name}={EQUAL} is for ranks that have the machine to themselves. "
        "Beside other programs it may be slower: search --check measures it again."
    )


def busy_sentence(answer: StudyAnswer) -> str | None:
    """That others disturbed the study, and what that means; None if they did not."""
    machine = answer.machine
    if machine is None or not machine.is_busy:
        return None
    return (
        f"The machine was busy: others took {whole_percent(machine.taken_share)} of its CPUs, and "
        f"disturbed {machine.disturbed_worlds} of {plural(machine.worlds, 'world')}. Search again "
        "on a quiet one."
    )


def not_excluded_sentence(answer: StudyAnswer) -> str | None:
    """What may be better than the best by more than epsilon; None if nothing may."""
    if answer.best_trial is None or not answer.not_excluded:
        return None
    better, worse = faster_or_slower(answer)
    behind: list[Config] = []
    others: list[Config] = []
    for trial in answer.not_excluded:
        found = answer.paired.alone(trial, answer.best_trial)
        # Behind: it would be shown to be so if no other had been compared, or earlier.
        (behind if found and found.ratio.high < 1 else others).append(answer.by_trial[trial].config)
    said = []
    if others:
        may = f"may be more than {epsilon(answer)} {better} than {answer.best}"
        said.append(f"Not ruled out (open): {named(others)} {may}.")
    if behind:
        looks = "looks" if len(behind) == 1 else "look"
        said.append(f"{named(behind)} {looks} {worse}, in too few blocks to be sure.")
    return " ".join(said)


def as_good_sentence(answer: StudyAnswer) -> str | None:
    """What else may be as good as what is recommended, where no other sentence says it."""
    if answer.best is None or answer.verdict not in ("better", "tie"):
        return None
    known = [*answer.tied, *(answer.by_trial[trial].config for trial in answer.not_excluded)]
    alike = [answer.by_trial[trial].config for trial in answer.not_told_apart]
    if not (others := [config for config in alike if config not in known]):
        return None
    most = f"at most {epsilon(answer)} {faster_or_slower(answer)[0]}"
    return f"Not told apart from the best, and {most}: {named(others)}."


def noise_sentence(answer: StudyAnswer) -> str | None:
    """The smallest gain that the study could have shown, or why that is so large; or None."""
    if answer.verdict is None or answer.baseline_failed or answer.challenger is None:
        return None
    least, floor = answer.least_gain, answer.noise_floor
    if least is None or least > _MOST_LEAST:
        if answer.verdict == "better":
            return None
        verb = "is" if answer.blocks == 1 else "are"
        return (
            f"{plural(answer.blocks, 'block')} {verb} too few to show a gain. A larger --budget "
            "helps, and so do fewer values, or a quieter machine."
        )
    said = f"The smallest gain that could have been shown is {share(least)}."
    if floor is None:
        return said
    itself = interval_cell(floor) if floor.is_told else UNTOLD
    return f"{said} The baseline against itself, in the same blocks: {itself}."
