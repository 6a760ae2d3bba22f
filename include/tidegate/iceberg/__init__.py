"""Iceberg tables by pyiceberg, whose catalog is in the database of the checkpoints: `IcebergSink`."""
