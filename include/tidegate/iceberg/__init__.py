"""Iceberg tables, written with pyiceberg. Their catalog is in the metadata database: `IcebergSink`."""
