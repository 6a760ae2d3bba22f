"""How data and barriers move through a pipeline, without Spark: channels, input gates, operator chains, snapshots of sources.

Two drivers stand on it: one takes a single checkpoint, the other runs on and on. May import `pipeline`, `ports` and `protocol`.
"""
