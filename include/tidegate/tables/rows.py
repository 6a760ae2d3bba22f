"""Open the rows of one table with Arrow, Spark and DuckDB. pandas uses the rows of Arrow."""

from typing import TYPE_CHECKING, Any, Protocol

from tidegate.ports import TableFiles
from tidegate.ports.arrow_reading import ArrowRows
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.settings import spark_path
from tidegate.settings.spark_schemes import reaches

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs
    from pyspark.sql import DataFrame, SparkSession

Rows = TableFiles | ArrowRows


class DuckDBConnection(Protocol):
    """The part of a DuckDB connection that is used here, so that the library does not need DuckDB."""

    def register(self, view_name: str, python_object: Any) -> Any:
        """Make an object of Python a view.

        Args:
            view_name: The name of the view.
            python_object: A `pyarrow.Table` or `pyarrow.dataset.Dataset`.

        Returns:
            The connection.
        """
        ...


def arrow_table(rows: Rows) -> "pa.Table":
    """Read all rows. Raises `FileNotFoundError` if a file has moved."""
    # pyarrow is heavy, and a DAG file may import `tidegate.read`.
    import pyarrow as pa

    if not isinstance(rows, TableFiles):
        return rows.to_table(list(rows.schema.names))
    return pa.concat_tables([_read(path, rows.columns) for path in rows.paths] or [rows.columns.empty_table()])


def _read(path: str, columns: "pa.Schema") -> "pa.Table":
    """Read one file, in the columns of the whole table. Only this thread reads, because pyarrow's may outlive the
    interpreter."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    filesystem, place = _place(path)
    with pq.ParquetFile(place, filesystem=filesystem, pre_buffer=False) as file:
        table = file.read(use_threads=False)
    known = set(table.column_names)
    return pa.table(
        [
            table[field.name].cast(field.type) if field.name in known else pa.nulls(table.num_rows, field.type)
            for field in columns
        ],
        schema=columns.remove_metadata(),
    )


def spark_frame(spark: "SparkSession", rows: Rows) -> "DataFrame":
    """Return a lazy DataFrame of files that Spark can reach. Other rows are read at once."""
    # pyspark is heavy, and a DAG file may import `tidegate.read`.
    from pyspark.sql.pandas.types import from_arrow_schema

    if not isinstance(rows, TableFiles) or not all(reaches(spark, path) for path in rows.paths[:1]):
        return spark.createDataFrame(arrow_table(rows))
    schema = from_arrow_schema(rows.columns, prefer_timestamp_ntz=True)
    if not rows.paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*map(spark_path, rows.paths))


def register(connection: DuckDBConnection, name: str, rows: Rows) -> None:
    """Make the rows a view. DuckDB reads files when a query needs them, and only those that it needs."""
    if not isinstance(rows, TableFiles):
        connection.register(name, arrow_table(rows))
        return
    if not rows.paths:
        raise ConfigurationError(
            f"Table {name!r} has no rows as of this checkpoint, so its columns are not known and DuckDB cannot have a "
            "view of it. Leave it out, or read a later checkpoint."
        )
    # pyarrow is heavy, and a DAG file may import `tidegate.read`.
    import pyarrow.dataset as ds

    places = [_place(path) for path in rows.paths]
    files = ds.dataset([place for _, place in places], rows.columns, format="parquet", filesystem=places[0][0])
    connection.register(name, files)


def _place(path: str) -> "tuple[pafs.FileSystem, str]":
    """Return the file system and path of a file for Arrow, from its path or URL."""
    from pyarrow import fs

    return fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)
