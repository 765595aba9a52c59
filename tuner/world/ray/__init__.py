"""The Ray launcher: worlds of processes on the hosts of a Ray cluster."""
