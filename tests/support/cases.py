"""Many cases of one test as one item: what pytest does for each item costs more than most of these cases."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def for_each(
    names: str | Sequence[str], cases: Iterable[Any], ids: Callable[[Any], object] | Sequence[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`pytest.mark.parametrize` in one item: all cases run, and those that failed are told together. For cases that
    share their fixtures."""
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    listed = [_values(case, len(split)) for case in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures = []
            for number, values in enumerate(listed):
                try:
                    test(**fixtures, **dict(zip(split, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # the latter is no Exception
                    error.add_note(f"in the case {_name(number, values, ids)}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(listed)} cases", failures)
            assert listed, "there is no case"

        rest = [each for name, each in inspect.signature(test).parameters.items() if name not in split]
        run.__signature__ = inspect.Signature(rest)
        del run.__wrapped__
        return run

    return decorate


def _values(case: Any, number: int) -> tuple[Any, ...]:
    values = getattr(case, "values", case) if hasattr(case, "marks") else case  # a pytest.param
    return (values,) if number == 1 and not (hasattr(case, "marks")) else tuple(values)


def _name(number: int, values: tuple[Any, ...], ids: Callable[[Any], object] | Sequence[str] | None) -> str:
    if callable(ids):
        return ", ".join(str(ids(value)) for value in values)
    return ids[number] if ids is not None else ", ".join(repr(value)[:200] for value in values)
