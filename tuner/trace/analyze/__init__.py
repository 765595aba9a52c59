"""From a trace to tables, parallelism and a diagnosis."""
