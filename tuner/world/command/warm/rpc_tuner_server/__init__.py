"""The server behind a warm start, in the program's own interpreter: standard library only."""
