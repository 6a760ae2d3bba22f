"""By which seed each planted mistake was noticed last."""

import json
from pathlib import Path

from simulator.__main__ import run_seed

LIST = Path(__file__).with_name("noticed.json")


def seed_that_notices(sentence: str, most: int = 700) -> int | None:
    """With the mistake planted: the seed of before if it still notices, else the first of so many that does,
    else None."""
    known = json.loads(LIST.read_text()).get(sentence, 0)
    return next((seed for seed in (known, *range(most)) if run_seed(seed)), None)
