"""Drives a pipeline that runs continuously, through the same steps."""
