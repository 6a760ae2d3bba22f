"""Clicks of a topic, to Postgres, to Iceberg and to topics by one checkpoint: `web` is the pipeline, `traffic` makes
clicks, and `plain` computes the same without Spark.

docs/how-to/read-and-write-kafka.md explains it.
"""
