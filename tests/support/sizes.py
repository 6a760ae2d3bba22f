"""Sweeps in two sizes: a sample that every run of the tests takes, and the whole, which `make test-long` takes."""

import pytest


def sizes(name: str, sample: int, whole: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(name, [sample, pytest.param(whole, marks=pytest.mark.long)])
