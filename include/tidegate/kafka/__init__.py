"""Kafka: topics as sources, and as sinks with one transaction for each checkpoint."""
