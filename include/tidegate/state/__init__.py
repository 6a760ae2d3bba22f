"""Keyed state as sorted Parquet runs, and the checkpoint storage they lie on: numpy and pyarrow, no Spark.

May import `pipeline` (aggregates), `protocol` and settings. Read `layout` and `runs` first, then `subtask` (an upsert).
"""
