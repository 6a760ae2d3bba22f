"""Counts in windows of event time. `clicks` is the pipeline, and `plain` computes the same without Spark.

docs/how-to/aggregate-in-windows.md explains it.
"""
