"""Apache DataSketches' package, which the extra `sketches` brings: imported where a sketch is first needed."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tidegate.protocol.text.installed import not_installed


@cache
def require_library() -> None:
    """Raise `NotInstalledError`, which names the extra, if it is not there. Imports nothing."""
    if find_spec("datasketches") is None and (missing := not_installed("datasketches")) is not None:
        raise missing


@cache
def library() -> Any:
    """The module. Raises `NotInstalledError`."""
    require_library()
    return import_module("datasketches")
