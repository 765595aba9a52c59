"""Programs that nobody edits: a hook in each of their Python processes, and what it tells."""
