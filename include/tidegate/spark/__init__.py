"""A pipeline's region on Spark: sources, operators and sinks of one checkpoint, or on and on, as Spark jobs and barriers.

May import `state`, `pipeline`, `ports` and `protocol`. `region` (one checkpoint) and `continuous` come first.
"""
