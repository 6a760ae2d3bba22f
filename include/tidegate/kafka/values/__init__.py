"""Decodes the values of a topic to Arrow, and encodes them, in Spark's tasks."""
