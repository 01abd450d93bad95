"""What works on this computer, and what it is."""
