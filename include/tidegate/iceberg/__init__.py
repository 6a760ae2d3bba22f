"""Iceberg tables, written with pyiceberg. Their catalog is in the database of the checkpoints: `IcebergSink`."""
