"""Programs started warm: from a server that has imported what they import."""
