"""Programs as people write them: they know nothing of a tuner. Each prints its number of calls."""
