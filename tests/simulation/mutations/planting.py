"""How a mistake is planted: real functions are replaced for a while."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from inspect import signature
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


class MisfitError(Exception):
    """A mutation that is not a mistake of its kind any more, because the code that it replaces has changed."""


def misfit(replacement: Replacement) -> str | None:
    """Why what it makes cannot take the place of the original, as far as that can be told without running it."""
    if not hasattr(replacement.owner, replacement.name):
        return "it is not there"
    original = getattr(replacement.owner, replacement.name)
    made = replacement.make(original)
    if not callable(original):
        return None if type(made) is type(original) else f"it is a {type(original).__name__}"
    if isinstance(original, type) and issubclass(original, BaseException):
        return None  # errors do not say what they are made with
    parameters = signature(original).parameters.values()
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    names = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    required = [each for each in places if each.default is each.empty]
    try:
        for given in (places, required):
            signature(made).bind(*given, **dict.fromkeys(names))
    except TypeError as error:
        return str(error)
    return None


MUTATIONS: dict[str, tuple[Replacement, ...]] = {}


def mutation(sentence: str, *places: tuple[Any, str]) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Register what takes the place of the originals at `places`."""

    def register(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        MUTATIONS[sentence] = tuple(Replacement(owner, name, make) for owner, name in places)
        return make

    return register
