"""The critical path: what the driver waited for, what that waited for in turn, and for how long."""
