"""What is kept, for how long and why, and which files are nobody's any more."""
