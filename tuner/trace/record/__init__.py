"""Records a trace: runs inside the processes of a world, or of a user's own program."""
