"""A classic session whose Spark SQL starts on first use.

Java needs two seconds and more for a session of Spark SQL, because it loads all functions and Scala's reflection. A
region needs none if its jobs are all of Spark's core (`executor.numbered`), and its tables are validated without Spark.
"""

import threading
from collections.abc import Mapping
from typing import Any, cast

from pyspark import SparkContext
from pyspark.errors.exceptions import captured
from pyspark.sql import SparkSession

from tidegate.settings.shortcuts import Shortcut

SHORTCUT = Shortcut(
    "session",
    "pyspark",
    (
        "pyspark:SparkContext._active_spark_context",
        "pyspark.errors.exceptions.captured:install_exception_handler",
        "pyspark.sql:SparkSession._get_j_spark_session_class",
        "pyspark.sql:SparkSession._instantiatedSession",
        *(f"pyspark.sql:SparkSession().{name}" for name in ("_jsc", "_jsparkSession", "_jvm", "_sc")),
    ),
    "Spark SQL begins with the session",
)


class LazySession(SparkSession):
    """A `SparkSession` that is the only one of its context. It takes `options` as its builder does.

    Spark SQL starts with the first use that needs more than the context. Until then Java has no active session. From
    then on this session is the active one in each thread that uses it. If Spark refuses an option, the error is raised
    at that start.
    """

    def __init__(
        self, sparkContext: SparkContext, jsparkSession: Any = None, options: Mapping[str, Any] | None = None
    ) -> None:
        self._java: Any = None
        self._beginning, self._active_in = threading.RLock(), threading.local()
        if jsparkSession is not None:  # from `newSession`
            super().__init__(sparkContext, jsparkSession, dict(options or {}))
            return
        context: Any = sparkContext
        self._sc, self._jsc, self._jvm = context, context._jsc, context._jvm
        self._options = dict(options or {})
        captured.install_exception_handler()  # jobs of the core need it too
        _answered_by_builders(self)

    @property
    def has_begun(self) -> bool:
        return self._java is not None

    @property
    def _jsparkSession(self) -> Any:
        """Java's session under PySpark's name, behind all of its methods."""
        with self._beginning:
            if self._java is None:
                _answered_by_builders(None)  # PySpark makes a session the default and the active one if it is the first
                super().__init__(self._sc, None, self._options)
                self._active_in.known = True
        if not hasattr(self._active_in, "known"):
            self._active_in.known = True
            self._get_j_spark_session_class(self._jvm).setActiveSession(self._java)
        return self._java

    @_jsparkSession.setter
    def _jsparkSession(self, java: Any) -> None:
        self._java = java


def _answered_by_builders(session: SparkSession | None) -> None:
    cast(Any, SparkSession)._instantiatedSession = session
