"""Takes a trace: runs inside the processes of a world, or of a person's program."""
