"""Runs `dataflow`'s jobs on Spark: `driver` builds them, `executor` runs inside them, `session` is what they run on.

May import `dataflow`, `state`, `pipeline`, `ports` and `protocol`. Read `region` first.
"""
