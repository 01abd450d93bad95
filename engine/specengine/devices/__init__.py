"""What a model takes of memory, and which part of it goes to which GPU."""
