"""By which seed each planted mistake was noticed last."""

import json
from collections.abc import Iterable
from pathlib import Path

from simulator.__main__ import error_of

from mutations.planting import MisfitError

LIST = Path(__file__).with_name("noticed.json")

#: How many seeds a test tries where the one of before notices nothing: more would take minutes for each of the rarest.
TRIED = 25


def seed_of(sentence: str) -> int | None:
    """The one of before. None of a new mistake, and of one that no known seed notices since the simulator draws
    differently (null in the list)."""
    known: dict[str, int | None] = json.loads(LIST.read_text())
    return known.get(sentence)


def seed_that_notices(sentence: str, most: int = TRIED) -> int | None:
    """With the mistake planted: the seed of before if it still notices, else the first of so many that does,
    else None. Raises `MisfitError`."""
    before = seed_of(sentence)
    seeds: Iterable[int] = range(most) if before is None else (before, *range(most))
    return next((seed for seed in seeds if notices(seed)), None)


def notices(seed: int) -> bool:
    """Whether a run goes wrong, in another way than Python's own about the code of the mistake: `MisfitError`."""
    found = error_of(seed)
    if found is not None:
        _require_fit(found[1])
    return found is not None


def _require_fit(error: BaseException | None) -> None:
    """Of all that led to the error."""
    while error is not None:
        if isinstance(error, TypeError | AttributeError | NameError):
            raise MisfitError(f"this mutation does not fit the code any more: {error}") from error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
