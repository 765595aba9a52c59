"""What runs inside the processes of a program: this folder goes on their PYTHONPATH."""
