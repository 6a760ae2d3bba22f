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

    Spark is called once for each scheme, with a URL without a bucket. If Spark has no class for the scheme, the error
    names that. If it has one, the class refuses the URL before it connects to anything.
    """
    scheme = scheme_of(url)
    if scheme == "file":
        return True
    by_scheme = _KNOWN.setdefault(spark, {})
    if scheme not in by_scheme:
        by_scheme[scheme] = _is_there(spark, scheme)
    return by_scheme[scheme]


def scheme_of(url: str) -> str:
    """Return the scheme under which Spark reads a URL."""
    return spark_path(url).partition("://")[0]


def advice(url: str) -> str:
    """Return advice on how to give Spark a file system for a URL."""
    scheme = scheme_of(url)
    package = _PACKAGES.get(scheme, f"a file system for {scheme}://")
    return f"Or give Spark the package {package} in spark.jars.packages, so that it reads them itself."


def _is_there(spark: "SparkSession", scheme: str) -> bool:
    try:
        _ = spark.read.text(f"{scheme}:///tidegate").schema
    except Exception as error:  # of Java, or of a Connect server
        return not _LACKS.search(str(error))
    return True
