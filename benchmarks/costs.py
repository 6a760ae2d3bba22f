"""What something costs: seconds by the clock, and of processors."""

import os
import time
from collections.abc import Callable

from process_tree import processor_seconds

#: By the clock, and of processors.
Cost = tuple[float, float]


def measured(take: Callable[[], float | None], *also: int) -> Cost:
    """What `take` costs this process, its descendants and `also`. It may answer its own seconds by the clock."""
    processors, begin = processor_seconds(os.getpid(), *also), time.perf_counter()
    own = take()
    seconds = time.perf_counter() - begin if own is None else own
    return seconds, processor_seconds(os.getpid(), *also) - processors
