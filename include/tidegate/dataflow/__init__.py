"""How data and barriers move through a pipeline, without Spark: channels, gates, operator chains, source snapshots.

Two drivers use it: for a single checkpoint and for a continuous run. May import `pipeline`, `ports` and `protocol`.
"""
