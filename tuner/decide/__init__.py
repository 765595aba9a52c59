"""Stage 4: which is best. The race, the verdict, and the study that holds every measurement."""
