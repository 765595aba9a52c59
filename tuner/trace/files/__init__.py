"""Trace files: our format, that of torch.profiler (Kineto), and that of the legacy profiler."""
