"""Meter readings whose files drift, and a table of the meters with derived columns (file-source.md)."""
