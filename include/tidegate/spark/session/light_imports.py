"""Keeps pandas out of drivers that do not use it: 0.2 s of processor time and 30 MB in each.

To learn whether there is numpy, PySpark imports its test helpers, and with them pandas and protobuf. It does so for
each literal of a column, and for each argument of a call into the JVM. A module that knows nothing else stands in their
place, until somebody asks for more.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pyspark

_PACKAGE, _HELPERS = "pyspark.testing", "pyspark.testing.utils"


class _Light(ModuleType):
    """Answers whether there is numpy. Whoever asks for anything else gets the real module, from then on as well."""

    def __getattr__(self, name: str) -> Any:
        if self.__name__ == _HELPERS and name == "have_numpy":
            return find_spec("numpy") is not None
        if self.__name__ == _HELPERS and name == "__path__":  # every import asks: it is no package
            raise AttributeError(name)
        for each in (_PACKAGE, _HELPERS):
            if isinstance(sys.modules.get(each), _Light):
                del sys.modules[each]
        return getattr(import_module(self.__name__), name)


def import_lightly() -> None:
    """Unless the real ones are imported already. May be repeated."""
    if _PACKAGE not in sys.modules:
        sys.modules.update({name: _Light(name) for name in (_PACKAGE, _HELPERS)})
        vars(pyspark)["testing"] = sys.modules[_PACKAGE]  # as an import would
