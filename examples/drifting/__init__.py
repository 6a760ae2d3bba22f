"""Meter readings whose files drift, and a table of the meters with derived columns. docs/pipelines.md tells of both."""
