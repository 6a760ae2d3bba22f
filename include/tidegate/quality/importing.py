"""Imports Great Expectations without what a checkpoint hardly ever needs, which takes half of the time.

Statistics and plots are imported when an expectation first uses them. Clients of clouds count as not installed: what is
judged is always a DataFrame.
"""

import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any

_POSTPONED = ("scipy.stats", "altair")
_ABSENT = ("boto3", "botocore", "google.cloud")
_ONE_AT_A_TIME, _ONE_CONTEXT = Lock(), Lock()


def load_great_expectations() -> Any:
    """The library, with its analytics off and without the warnings it raises about its own imports."""
    os.environ["GX_ANALYTICS_ENABLED"] = "False"
    # One thread at a time: neither the filter of warnings nor what stands in for modules is a thread's own.
    with _ONE_AT_A_TIME, warnings.catch_warnings(), _standing_in() if _is_first() else nullcontext():
        warnings.simplefilter("ignore")
        import great_expectations
        import great_expectations.expectations
    return great_expectations


def open_context() -> Any:
    """Great Expectations' context, one for the process: it takes longer to make than many suites to judge."""
    with _ONE_CONTEXT:
        return _context()


@cache
def _context() -> Any:
    context: Any = load_great_expectations().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    return context


def _is_first() -> bool:
    return "great_expectations" not in sys.modules


class _Postponed(ModuleType):
    """Stands for a module, and imports it when something in it is first asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks, and takes no for an answer
            raise AttributeError(name)
        module = importlib.import_module(self.__name__)
        self.__dict__.update(vars(module))
        return getattr(module, name)


@contextmanager
def _standing_in() -> Iterator[None]:
    """Who imports one of these modules later, gets the module itself. Great Expectations keeps what stood in for it."""
    instead: dict[str, Any] = {name: _Postponed(name) for name in _POSTPONED} | dict.fromkeys(_ABSENT)
    instead = {name: stands for name, stands in instead.items() if name not in sys.modules}
    sys.modules.update(instead)
    try:
        yield
    finally:
        for name, stands in instead.items():
            if sys.modules.get(name) is stands:
                del sys.modules[name]
