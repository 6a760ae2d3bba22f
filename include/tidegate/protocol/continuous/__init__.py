"""Decisions for a pipeline that runs continuously: its region, its schedule, and checkpoints that overlap."""
