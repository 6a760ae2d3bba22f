"""Tests for users' own sinks, sources and pipelines. They need pytest."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.testing.crashes import CrashReport, crash_test
    from tidegate.testing.sinks import SinkSuite
    from tidegate.testing.sources import SourceSuite

__all__ = ["CrashReport", "SinkSuite", "SourceSuite", "crash_test"]
_PUBLIC = {
    "CrashReport": "tidegate.testing.crashes",
    "SinkSuite": "tidegate.testing.sinks",
    "SourceSuite": "tidegate.testing.sources",
    "crash_test": "tidegate.testing.crashes",
}


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tidegate.testing' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
