"""Counts in windows of event time: `clicks` is the pipeline, and `plain` computes the same without Spark.

docs/windows.md explains it.
"""
