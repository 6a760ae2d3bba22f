"""Find anew which seed notices each planted mistake, once the simulator draws differently: `make noticed`.

A test tries that seed first, and a few others if it notices nothing. If they do not either, the test fails: an old list
costs time, and hides nothing.
"""

import json
import logging
import sys
from concurrent.futures import ProcessPoolExecutor

from mutations import MUTATIONS, planted
from mutations.noticed import LIST, seed_that_notices


def find(sentence: str) -> int | None:
    logging.getLogger("tidegate").setLevel(logging.CRITICAL)  # it tells of the trouble, which is the point here
    with planted(MUTATIONS[sentence]):
        return seed_that_notices(sentence, most=5000)


def main() -> int:
    with ProcessPoolExecutor() as pool:
        found = dict(zip(MUTATIONS, pool.map(find, MUTATIONS), strict=True))
    LIST.write_text(json.dumps(found, indent=1) + "\n")
    missed = [sentence for sentence, seed in found.items() if seed is None]
    print(*(f"Nobody noticed that {sentence}." for sentence in missed), f"{len(found)} mistakes.", sep="\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
