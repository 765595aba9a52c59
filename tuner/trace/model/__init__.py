"""What a trace is: its frames and their columns, facts about it, and the spans it is made of."""
