"""Interrupts of a thread that works with Spark, noted by a handler that does not raise.

Python raises KeyboardInterrupt wherever the main thread happens to be. Inside the callback of a weak reference it is
ignored, and py4j has one for each Java object. Inside an import it can leave the lock of all imports taken, and threads
that plan jobs then wait for it.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noting_interrupts(note: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Call `note` on the first SIGINT or SIGTERM that would raise KeyboardInterrupt, until the context is left. `note`
    may be called at any point of the main thread's work. A second signal raises, because its sender has lost patience.

    Raise `KeyboardInterrupt` in the end if a signal was noted and no other error is raised.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield
        return
    noted: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        if len(noted) > 1:
            raise KeyboardInterrupt
        note()

    raising = [number for number in (signal.SIGINT, signal.SIGTERM) if _raises(signal.getsignal(number))]
    before = {number: signal.signal(number, handle) for number in raising}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if noted:
        raise KeyboardInterrupt


def _raises(handler: object) -> bool:
    """Return whether the handler is Python's own, or PySpark's, which cancels all jobs first. Other handlers end a run
    in their own way."""
    return handler is signal.default_int_handler or getattr(handler, "__module__", None) == "pyspark.core.context"
