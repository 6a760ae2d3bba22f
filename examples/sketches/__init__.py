"""Approximate figures of visits to pages: `visits` is the pipeline.

docs/aggregates.md explains it.
"""
