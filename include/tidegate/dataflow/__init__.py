"""The movement of data and barriers through a pipeline, without Spark: channels, gates, operator chains, source
snapshots.

Two drivers use it, one for a single checkpoint and one for a continuous run. May import `pipeline`, `ports` and
`protocol`.
"""
