"""What is kept, for how long and why, and which files can be deleted."""
