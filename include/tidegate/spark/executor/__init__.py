"""The executor's part of a Spark job, on executors without Tidegate installed. Imports neither `driver` nor
`session`."""
