"""Import of Great Expectations without packages that a checkpoint rarely needs, which takes half of the time.

Statistics and plots are imported on first use. Client libraries of cloud providers count as not installed, because the
validated rows are always a DataFrame.
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
    """Import and return the library, with its analytics off and without the warnings about its own imports."""
    os.environ["GX_ANALYTICS_ENABLED"] = "False"
    # One thread at a time: the filter of warnings and the replaced modules are shared by all threads.
    with _ONE_AT_A_TIME, warnings.catch_warnings(), _standing_in() if _is_first() else nullcontext():
        warnings.simplefilter("ignore")
        import great_expectations
        import great_expectations.expectations
    return great_expectations


def open_context() -> Any:
    """Return Great Expectations' context, one for the process. It takes longer to create than many suites take to
    run."""
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
    """A placeholder for a module, which it imports on the first use of a name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system tests these names and must not find them
            raise AttributeError(name)
        module = importlib.import_module(self.__name__)
        self.__dict__.update(vars(module))
        return getattr(module, name)


@contextmanager
def _standing_in() -> Iterator[None]:
    """Replace modules while Great Expectations is imported. Later imports get the real modules; Great Expectations
    keeps the placeholders."""
    placeholders: dict[str, Any] = {name: _Postponed(name) for name in _POSTPONED} | dict.fromkeys(_ABSENT)
    placeholders = {name: placeholder for name, placeholder in placeholders.items() if name not in sys.modules}
    sys.modules.update(placeholders)
    try:
        yield
    finally:
        for name, placeholder in placeholders.items():
            if sys.modules.get(name) is placeholder:
                del sys.modules[name]
