"""Merges Parquet files of one schema, in bounded memory."""

import os
from collections.abc import Callable, Sequence
from typing import Any

#: The rows of one row group, so that many tiny files become few large groups.
_ROWS = 1 << 18


class ParquetMerger:
    """A `merged.FileMerger`."""

    def schema(self, path: str) -> bytes:
        # pyarrow is heavy and this module is imported when Airflow parses a DAG.
        import pyarrow.parquet as pq

        content: bytes = pq.read_schema(path).remove_metadata().serialize().to_pybytes()
        return content

    def merge(self, sources: Sequence[str], target: str, keep: Callable[[], None]) -> None:
        """See `merged.FileMerger`."""
        # pyarrow is heavy and this module is imported when Airflow parses a DAG.
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema, waiting, rows = pq.read_schema(sources[0]).remove_metadata(), list[Any](), 0
        with open(target, "xb") as file:
            with pq.ParquetWriter(file, schema, compression="zstd", coerce_timestamps="us") as writer:
                for source in sources:
                    keep()
                    with pq.ParquetFile(source) as each:
                        for batch in each.iter_batches(_ROWS):
                            waiting.append(batch.replace_schema_metadata(None))
                            rows += batch.num_rows
                            if rows >= _ROWS:
                                writer.write_table(pa.Table.from_batches(waiting, schema), row_group_size=_ROWS)
                                waiting, rows = [], 0
                if waiting:
                    writer.write_table(pa.Table.from_batches(waiting, schema))
            file.flush()
            os.fsync(file.fileno())
