"""What happened inside a world: taking, reading and analysing traces of RPC calls."""
