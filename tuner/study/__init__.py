"""What is known of a study: its records, what follows from them, its answer, its files."""
