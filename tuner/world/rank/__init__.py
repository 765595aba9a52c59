"""What runs inside the processes of a world."""
