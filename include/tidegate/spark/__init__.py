"""Runs `dataflow`'s jobs on Spark: `driver` builds them, `executor` is what runs inside them, `session` what they run on.

May import `dataflow`, `state`, `pipeline`, `ports` and `protocol`. Read `region` first.
"""
