"""The search: what to measure next, and the worlds that are run for it."""
