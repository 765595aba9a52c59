"""Stage 5: tell, draw, export."""
