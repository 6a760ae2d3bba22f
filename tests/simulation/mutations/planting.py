"""How a mistake is planted: real functions are replaced for a while."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch


@dataclass(frozen=True)
class Replacement:
    """`make` is given the original and returns what takes its place."""

    owner: Any
    name: str
    make: Callable[[Any], Any]


@contextmanager
def planted(replacements: tuple[Replacement, ...]) -> Iterator[None]:
    """The mistake is made inside, and nowhere else."""
    with ExitStack() as stack:
        for each in replacements:
            stack.enter_context(patch.object(each.owner, each.name, each.make(getattr(each.owner, each.name))))
        yield


MUTATIONS: dict[str, tuple[Replacement, ...]] = {}


def mutation(sentence: str, *places: tuple[Any, str]) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Register what takes the place of the originals at `places`."""

    def register(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        MUTATIONS[sentence] = tuple(Replacement(owner, name, make) for owner, name in places)
        return make

    return register
