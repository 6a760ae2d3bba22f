"""Replayable inputs behind the `Source` port: their segments, the record of the segments read, and replay.

May import `ports`, `protocol` and settings; Spark only inside functions. Read `files` first.
"""
