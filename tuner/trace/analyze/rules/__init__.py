"""The rules of the diagnosis: each says, from the evidence on a server, whether it fits and what limits."""
