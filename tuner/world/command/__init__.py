"""Programs that are not edited: a hook in each of their Python processes, and its reports."""
