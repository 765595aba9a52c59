"""Stage 1: what to try. Settings, the search space, and the plan of a study."""
