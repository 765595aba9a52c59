"""That a study measures what a sampler proposes, not its grid, and what is known of the rest."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

OptunaSampler = Literal["tpe", "gp", "random"]


class Sampling(BaseModel):
    """Who proposes, and how far that is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sampler: OptunaSampler
    configs: int
    """The configurations of the grid, the baseline included."""
    went_on: tuple[int, ...] | None = None
    """The trials that went on to the race, the baseline among them; None until that is known."""
    lessons: tuple[str, ...] = ()
    """What is known of those that were not tried, as sentences."""

    def to_json(self, tried: int) -> dict[str, Any]:
        """The entry in `--json`, of a study that has tried so many configurations."""
        return {
            "sampler": self.sampler,
            "configurations": self.configs,
            "tried": tried,
            "lessons": list(self.lessons),
        }
