"""Run it: launches worlds and measures them."""
