"""The rules of the diagnosis: each says, from a server's evidence, whether it fits and why."""
