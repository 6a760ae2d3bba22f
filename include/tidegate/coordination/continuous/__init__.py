"""Drive a pipeline that runs continuously, through the same steps."""
