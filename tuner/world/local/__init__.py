"""The local launcher: worlds of processes on this machine."""
