"""Clicks of a topic, delivered to Postgres, Iceberg and topics by one checkpoint.

`web` is the pipeline, `traffic` generates clicks, and `plain` computes the same without Spark.
docs/how-to/read-and-write-kafka.md explains it.
"""
