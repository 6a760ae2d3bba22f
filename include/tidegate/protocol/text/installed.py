"""The errors for a package that is not installed, with the extra that brings it, and for a pair of packages of
different versions.

Pure: names and versions are arguments.
"""

from tidegate.protocol.facts.errors import NotInstalledError

#: The extra that brings a module. Other modules come with the library itself.
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
    """Return the error for a module that cannot be imported; None if no extra brings it."""
    name = (module or "").partition(".")[0]
    if name not in EXTRAS:
        return None
    return NotInstalledError(
        f"The package {name} is not installed, and this needs it. Nothing was begun. "
        f"Install it with: pip install 'tidegate[{EXTRAS[name]}]'"
    )


def unequal_pair(pyspark: str | None, client: str | None) -> NotInstalledError | None:
    """Return the error for pyspark and pyspark-client of different versions, which share a folder and leave a mixture
    of both in it. None if only one is installed, or if both are equal."""
    if pyspark is None or client is None or pyspark == client:
        return None
    return NotInstalledError(
        f"pyspark {pyspark} and pyspark-client {client} are installed. They share a folder, which now holds parts of "
        f"both. Nothing was begun. Install an equal pair: {repair_pair(pyspark, client)}"
    )


def repair_pair(pyspark: str, client: str) -> str:
    """Return the command that installs an equal pair. It is the older version, because the client is not released for
    every version."""
    older = min(pyspark, client, key=_numbers)
    return f"pip install --force-reinstall --no-deps pyspark=={older} pyspark-client=={older}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
