"""How data and barriers move through a pipeline, without Spark: channels, input gates, operator chains, snapshots of sources.

Two drivers use it: for a single checkpoint and for a continuous run. May import `pipeline`, `ports` and `protocol`.
"""
