"""Orders as they arrive, in an Iceberg table."""

from tidegate import CheckpointConfig, FileSource, IcebergSink, Pipeline

pipeline = Pipeline("bronze", parallelism=2, checkpoints=CheckpointConfig(retained=5))

source = FileSource("landing/orders", format="json", schema="customer STRING, cents BIGINT")
pipeline.source("orders", source).sink("orders", IcebergSink("bronze.orders"))
