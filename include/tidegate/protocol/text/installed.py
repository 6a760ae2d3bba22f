"""What it means that a package is not installed, or is of another version than its twin: which extra brings it.

Pure: names and versions are handed in.
"""

from tidegate.protocol.facts.errors import NotInstalledError

#: The extra that brings a module. What is not here, the library itself asks for.
EXTRAS = {
    "airflow": "airflow",
    "asyncpg": "airflow",
    "tenacity": "airflow",
    "pyspark": "spark",
    "grpc": "spark",
    "pandas": "spark",
    "great_expectations": "quality",
    "adbc_driver_manager": "postgres",
    "adbc_driver_postgresql": "postgres",
    "pyiceberg": "iceberg",
    "confluent_kafka": "kafka",
    "fastavro": "kafka",
    "datasketches": "sketches",
    "opentelemetry": "reporting",
    "openlineage": "reporting",
}


def not_installed(module: str | None) -> NotInstalledError | None:
    """The error for a module that cannot be imported; None if it is none of those that an extra brings."""
    name = (module or "").partition(".")[0]
    if name not in EXTRAS:
        return None
    return NotInstalledError(
        f"The package {name} is not installed, and this needs it. Nothing was begun. "
        f"Install it with: pip install 'tidegate[{EXTRAS[name]}]'"
    )


def unequal_pair(pyspark: str | None, client: str | None) -> NotInstalledError | None:
    """The error for pyspark and pyspark-client of different versions: they write into one folder, which then holds a
    mixture of both. None where only one is installed, or both are equal."""
    if pyspark is None or client is None or pyspark == client:
        return None
    return NotInstalledError(
        f"pyspark {pyspark} and pyspark-client {client} are installed. They share a folder, which now holds parts of "
        f"both. Nothing was begun. Install an equal pair: {mend_pair(pyspark, client)}"
    )


def mend_pair(pyspark: str, client: str) -> str:
    """The command that makes the pair equal, at the older version: the client is not released for each."""
    older = min(pyspark, client, key=_numbers)
    return f"pip install --force-reinstall --no-deps pyspark=={older} pyspark-client=={older}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
