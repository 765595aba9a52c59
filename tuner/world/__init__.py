"""Stage 2: run it. Launches worlds and measures them; nothing outside knows where a rank runs."""
