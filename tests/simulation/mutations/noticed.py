"""By which seed each planted mistake was noticed last."""

import json
from pathlib import Path

from simulator.__main__ import run_seed

LIST = Path(__file__).with_name("noticed.json")
SEEDS = 700


def seed_that_notices(sentence: str) -> int | None:
    """With the mistake planted: the seed of before if it still notices, else the first that does, else None."""
    known = json.loads(LIST.read_text()).get(sentence, 0)
    return next((seed for seed in (known, *range(SEEDS)) if run_seed(seed)), None)
