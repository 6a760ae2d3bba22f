"""Import of Apache DataSketches' package, from the extra `sketches`, on first use of a sketch."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tidegate.protocol.text.installed import not_installed


@cache
def require_library() -> None:
    """Raise `NotInstalledError`, which names the extra, if the package is missing. Import nothing."""
    if find_spec("datasketches") is None and (missing := not_installed("datasketches")) is not None:
        raise missing


@cache
def library() -> Any:
    """Return the module. Raise `NotInstalledError` if it is missing."""
    require_library()
    return import_module("datasketches")
