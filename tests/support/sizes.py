"""Sweeps in two sizes: a sample that every run of the tests takes, and the whole, which `make test-long` takes.

What is `later` is one of several that show the same kind of thing: every run takes the others.
"""

from typing import Any

import pytest


def sizes(name: str, sample: int, whole: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(name, [sample, later(whole)])


def later(*values: Any, **how: Any) -> Any:
    """A parameter set for `make test-long` alone."""
    return pytest.param(*values, marks=pytest.mark.long, **how)
