"""What the figures share: theme, axes, legends, rows, and how a figure becomes a file."""
