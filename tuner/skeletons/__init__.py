"""What `tuner.init` writes: files that run as they are, and say where one's own code goes."""
