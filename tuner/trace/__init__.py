"""Stage: see inside the calls of a world, or of a person's own program."""
