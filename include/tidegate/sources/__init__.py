"""Replayable inputs behind the `Source` port: which segments there are, what has been read, and reading it again.

May import `ports`, `protocol` and settings; Spark only inside functions. Read `files` first.
"""
