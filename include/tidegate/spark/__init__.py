"""The jobs of `dataflow` on Spark: `driver` builds them, `executor` runs inside them, `session` provides Spark
sessions.

May import `dataflow`, `state`, `pipeline`, `ports` and `protocol`. Read `region` first.
"""
