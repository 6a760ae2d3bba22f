"""Which packages of Spark are installed. Imports none of them."""

from importlib.metadata import PackageNotFoundError, version

from tidegate.protocol.text.installed import unequal_pair


def installed(package: str) -> str | None:
    """Its version, None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def check_pair() -> None:
    """Raises `NotInstalledError` if pyspark and pyspark-client are of different versions."""
    if wrong := unequal_pair(installed("pyspark"), installed("pyspark-client")):
        raise wrong
