"""The installed versions of Spark's packages. Imports none of them."""

from importlib.metadata import PackageNotFoundError, version

from tidegate.protocol.text.installed import unequal_pair


def installed(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def check_pair() -> None:
    """Raise `NotInstalledError` if pyspark and pyspark-client have different versions."""
    if wrong := unequal_pair(installed("pyspark"), installed("pyspark-client")):
        raise wrong
