"""What runs inside a Spark task, on an executor that has nothing of ours installed. Imports neither `driver` nor `session`."""
