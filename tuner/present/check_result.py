"""What `check` returns: whether an earlier recommendation holds, and what was measured today."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tuner.decide.statistics import Interval
from tuner.decide.verdict import Rules, Standing, standing_of
from tuner.plan.config import Config
from tuner.present.failures_told import failing_sentences
from tuner.present.sentences import busy_sentence
from tuner.present.wording import confidence, ends, epsilon, fast, rate_text, worlds_text
from tuner.recommended.model import Recommendation
from tuner.study.answer import StudyAnswer
from tuner.study.rows import TrialRow, ratio_json
from tuner.text import UNTOLD, duration, ratio_text

CHECK_FORMAT = 1

CheckOutcome = Standing | Literal["cannot-run"]
EXIT_CODES: dict[CheckOutcome, int] = {
    "holds": 0, "undecided": 0, "cannot-run": 3, "no-longer-holds": 4,
}  # fmt: skip


@dataclass(frozen=True)
class CheckResult:
    """An earlier recommendation beside what was measured today; `str` says it in a sentence."""

    recommendation: Recommendation
    """What was recommended then."""
    answer: StudyAnswer
    """The study of today: the baseline and one other configuration."""

    @property
    def config(self) -> Config:
        """The recommended configuration."""
        return self.recommendation.config

    @property
    def keeps_baseline(self) -> bool:
        """Whether the baseline is recommended; its strongest rival was measured with it."""
        return self.config == self.recommendation.baseline

    @property
    def speedup(self) -> Interval | None:
        """Baseline time / other time today; of the rival where the baseline is recommended."""
        return self.answer.challenger_speedup

    @cached_property
    def outcome(self) -> CheckOutcome:
        """Whether it holds; `undecided` where today's interval shows neither."""
        rival = self._other
        chosen = self._baseline if self.keeps_baseline else rival
        beside = rival if self.keeps_baseline else self._baseline
        if chosen.failure is not None and not (chosen.unreliable or chosen.does_less):
            return "cannot-run"
        if self.answer.verdict is None or not self._is_reached:
            return "undecided"
        if chosen.broken or chosen.unreliable or chosen.does_less:
            return "no-longer-holds"
        if chosen.lost:
            return "undecided"
        # Nothing to compare with: it could not run, fails too often or breaks a limit, or the two
        # configurations are one by now.
        is_out = beside.failure is not None or beside.broken or beside.unreliable
        if is_out or rival is self._baseline:
            return "holds"
        earlier, measuring = self.recommendation, self.answer.plan.measuring
        # "better" than a baseline that could not run is no comparison.
        verdict = earlier.verdict if earlier.challenger.config is not None else None
        rules = Rules(epsilon=measuring.epsilon, confidence=measuring.confidence)
        return standing_of(verdict, self.speedup, keeps_baseline=self.keeps_baseline, rules=rules)

    @property
    def exit_code(self) -> int:
        """That of `--check`: 4 where it is shown that the recommendation no longer holds."""
        return EXIT_CODES[self.outcome]

    @property
    def differences(self) -> list[str]:
        """What differs in the machine and the software, each as `label: then, now`."""
        earlier = self.recommendation
        return earlier.environment.differences(self.answer.environment, bound=earlier.config.binds)

    @property
    def _baseline(self) -> TrialRow:
        return self.answer.by_trial[0]

    @property
    def _other(self) -> TrialRow:
        """The other configuration; the baseline, where both are the same by now."""
        return self.answer.by_trial[max(self.answer.by_trial)]

    @property
    def _is_reached(self) -> bool:
        """Whether there was time for what is compared with the baseline."""
        return not self.answer.not_reached and self._other.worlds_run > 0

    @property
    def _compared_config(self) -> Config:
        """What is compared with the baseline, measured or not."""
        return next(iter(self.answer.not_reached), self._other.config)

    def to_json(self) -> dict[str, Any]:
        """The document of `--check` with `--json`, as data."""
        earlier, today, plan = self.recommendation, self.answer, self.answer.plan
        return {
            "format": CHECK_FORMAT,
            "study": earlier.study,
            plan.subject.kind: plan.subject.reference,
            "objective": today.objective.name,
            "unit": today.objective.unit,
            "outcome": self.outcome,
            "holds": {"holds": True, "undecided": None}.get(self.outcome, False),
            "sentence": str(self),
            "config": self.config.to_json(),
            "baseline": earlier.baseline.to_json(),
            "compared": self._compared_config.to_json(),
            "speedup": ratio_json(self.speedup),
            "recommended": {
                "verdict": earlier.verdict,
                "speedup": earlier.speedup.model_dump(),
                "challenger_speedup": earlier.challenger.speedup.model_dump(),
                "date": earlier.environment.date.isoformat(),
            },
            "epsilon": plan.measuring.epsilon,
            "confidence": plan.measuring.confidence,
            "differences": self.differences,
            "blocks": today.blocks,
            "worlds": today.worlds,
            "elapsed_s": round(today.elapsed_s, 3),
            "machine": None if today.machine is None else today.machine.to_json(),
            "trials": [row.to_json() for row in today.rows],
        }

    def __str__(self) -> str:
        if self.outcome == "cannot-run":
            row = self._baseline if self.keeps_baseline else self._other
            what = f"{rate_text(row)} here" if row.fails_sometimes else "cannot run here"
            return f"The recommendation {self.config} {what}: {row.outcome}: {row.failure}"
        compared = self._compared()
        if self.outcome == "holds":
            return f"The recommendation holds: {compared}."
        if self.outcome == "undecided":
            undecided = "Not decided whether the recommendation still holds"
            return f"{undecided}: {compared}. A larger --budget tells more."
        if self.recommendation.verdict == "undecided":
            kept = "The search was undecided, and today shows that what it kept is not the best"
            return f"{kept}: {compared}. Search again."
        return f"The recommendation no longer holds: {compared}. Search again."

    def _compared(self) -> str:
        """The two configurations today, and how that was when it was recommended."""
        baseline, other = self._baseline, self._other
        if not self._is_reached:
            spent = duration(self.answer.elapsed_s)
            return f"{spent} was too short to measure {self._compared_config}"
        if other is baseline:
            return f"{self.config} is what the baseline {baseline.label} is by now"
        for row in (baseline, other):
            if row.unreliable:
                return f"{row.label} {rate_text(row)} here, more often than the other"
        if other.lost:
            return f"{other.label} {other.lost}"
        if other.failure is not None:
            return f"its strongest rival {other.label} cannot run here ({other.outcome})"
        beside = f"the baseline {baseline.label}"
        if baseline.failure is not None:
            return f"{other.label} runs, and {beside} cannot ({baseline.outcome})"
        who = f"its strongest rival {other.label}" if self.keeps_baseline else other.label
        for row in (baseline if self.keeps_baseline else other, baseline, other):
            if row.broken:
                return f"{row.label} breaks a limit here ({row.broken_text})"
        today, earlier = self.speedup, self.recommendation
        if today is None:
            return f"{who} was compared with {beside} in too few pairs"
        sure, then = f"{confidence(self.answer)} confidence", earlier.speedup
        if self.keeps_baseline:
            then = earlier.challenger.speedup
        was = "" if then.estimate is None else f". It was {ratio_text(then.estimate)} times then"
        if not today.is_told:
            return f"how {who} compares with {beside} is {UNTOLD} ({sure}){was}"
        times = f"{ratio_text(today.estimate)} times as {fast(self.answer)}"
        return f"{who} is {times} as {beside} ({ends(today)}, {sure}){was}"


def check_lines(result: CheckResult) -> list[str]:
    """What is printed: the sentence, what to know of the machine, and how much was measured."""
    answer, differences = result.answer, "; ".join(result.differences)
    lines = [
        str(result),
        differences and f"Different from then (then, now): {differences}.",
        *failing_sentences(answer),
        busy_sentence(answer),
        f"{worlds_text(answer)}, in {duration(answer.elapsed_s)}. Less than {epsilon(answer)} does "
        "not matter.",
    ]
    return [*filter(None, lines)]
