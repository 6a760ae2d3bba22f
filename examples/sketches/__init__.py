"""Approximate figures of visits to pages. `visits` is the pipeline.

docs/how-to/aggregate-by-key.md explains it.
"""
