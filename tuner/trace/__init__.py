"""Traces of RPC calls: what they are, recording, reading and writing, and analysing them."""
