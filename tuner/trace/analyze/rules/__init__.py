"""The rules of the diagnosis: each says, from the evidence, whether it fits and what limits."""
