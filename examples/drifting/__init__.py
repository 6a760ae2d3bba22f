"""Meter readings whose files drift, and a table of the meters with derived columns. See file-source.md."""
