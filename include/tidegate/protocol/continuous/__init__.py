"""What is decided for a pipeline that runs continuously: its region, its schedule, checkpoints that overlap."""
