"""What the values of a plan have in common."""

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """A value that cannot be changed, and whose document has no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")
