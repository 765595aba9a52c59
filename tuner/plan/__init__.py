"""What to try: knobs, search space, configuration, and the plan of a study."""
