"""How the confirmation of a study stands: who meets the baseline, and the looks taken at it."""

from pydantic import BaseModel, ConfigDict

from tuner.decide.alpha_spending import SESSION_SHARE, Look, left_of


class Confirmation(BaseModel):
    """A challenger that meets the baseline in pairs of fresh worlds, and the looks at them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    challenger: int
    cap: int
    """The most pairs that the budget allows."""
    budget_s: float
    """The study's budget that `cap` is for."""
    alpha: float
    """What all looks together may spend, at whatever budget: less where an earlier challenger,
    which failed, has spent a part."""
    looks: tuple[Look, ...] = ()
    """The looks taken so far, in order. A resumed study goes on with what they left."""
    begun_pairs: int = 0
    """The pairs that there were when this budget began."""

    @property
    def alpha_left(self) -> float:
        """What further looks may spend, at whatever budget."""
        return left_of(self.alpha, [look.alpha for look in self.looks])

    @property
    def allowed(self) -> float:
        """What all looks up to the end of this budget may spend."""
        before = [look.alpha for look in self.looks if look.pairs <= self.begun_pairs]
        return sum(before) + SESSION_SHARE * (self.alpha - sum(before))
