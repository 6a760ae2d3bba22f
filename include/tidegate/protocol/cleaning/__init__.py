"""Retention and deletion: checkpoints that are kept, for how long and why, and files that can be deleted."""
