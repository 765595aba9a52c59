"""Which is best: pure functions of arrays of observations, so that they can be simulated."""
