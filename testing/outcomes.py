"""What came of a world, for who expects a measurement, or a failure."""

from tuner.world.measurement import Failure, Measurement


def measured(outcome: Measurement | Failure) -> Measurement:
    """A world that went well."""
    assert isinstance(outcome, Measurement), outcome
    return outcome


def failed(outcome: Measurement | Failure) -> Failure:
    """A world that failed."""
    assert isinstance(outcome, Failure), outcome
    return outcome
