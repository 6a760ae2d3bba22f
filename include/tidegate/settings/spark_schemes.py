"""Whether Spark reaches the files of a URL: a bucket needs a jar that Spark does not bring."""

import re
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tidegate.settings import spark_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LACKS = re.compile(r"No FileSystem for scheme|ClassNotFoundException|NoClassDefFoundError")
_PACKAGES = {"s3a": "hadoop-aws", "abfss": "hadoop-azure", "gs": "gcs-connector"}

_KNOWN: "WeakKeyDictionary[SparkSession, dict[str, bool]]" = WeakKeyDictionary()


def reaches(spark: "SparkSession", url: str) -> bool:
    """Whether a session has a file system for an absolute path or a URL.

    It is asked once for each scheme, by a URL without a bucket: what Spark has no class for is refused as such, and
    what it has refuses the URL before it connects to anything.
    """
    scheme = scheme_of(url)
    if scheme == "file":
        return True
    known = _KNOWN.setdefault(spark, {})
    if scheme not in known:
        known[scheme] = _is_there(spark, scheme)
    return known[scheme]


def scheme_of(url: str) -> str:
    """The scheme under which Spark reads."""
    return spark_path(url).partition("://")[0]


def advice(url: str) -> str:
    """How Spark comes to have a file system for a URL."""
    scheme = scheme_of(url)
    package = _PACKAGES.get(scheme, f"a file system for {scheme}://")
    return f"Or give Spark the package {package} in spark.jars.packages, so that it reads them itself."


def _is_there(spark: "SparkSession", scheme: str) -> bool:
    try:
        _ = spark.read.text(f"{scheme}:///tidegate").schema
    except Exception as error:  # of Java, or of a Connect server
        return not _LACKS.search(str(error))
    return True
