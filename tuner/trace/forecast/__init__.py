"""What another configuration would do: a queueing model of the traced program, replayed."""
