"""What a trace is: its columns, its ranks, the spans it is made of."""
