"""What runs inside a Spark task, on an executor without Tidegate installed. Imports neither `driver` nor `session`."""
