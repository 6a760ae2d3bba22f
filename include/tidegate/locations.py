"""How a connector's location is named: absolute for everybody, and escaped for Spark's readers."""

import os
import re

from tidegate import settings


def absolute(path: str) -> str:
    """A path or URL as the user wrote it, without `.`, `..` and trailing slashes; `file://` becomes a plain path.

    A URL's path is taken as it stands: `%20` is three characters.
    """
    location = settings.resolve(path.removeprefix("file://"))
    return location.rstrip("/") if "://" in location else os.path.normpath(location)


def relative_to_home(location: str, home: str) -> str:
    """An absolute location as a pipeline is known by: relative to the project's home if it lies below it."""
    if "://" in location:
        return location
    for path in (location, os.path.realpath(location)):
        if path.startswith(home.rstrip("/") + "/"):
            return os.path.relpath(path, home)
    return location


def spark_path(location: str) -> str:
    """An absolute path or URL for Spark's readers, which expand patterns: escaped, so that it stands for itself.

    Switching the expansion off instead (`__globPaths__`) makes Spark 4.2 read a file several times if there are more.
    """
    url = location if "://" in location else f"file://{location}"
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", url.replace("s3://", "s3a://", 1))
