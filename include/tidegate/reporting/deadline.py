"""A time limit for receivers of events, so that none keeps a checkpoint waiting.

It covers a slow name server, a slow connection, and an answer that arrives byte by byte.
"""

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

Answer = TypeVar("Answer")

#: Seconds for one event.
PATIENCE = 10.0


def within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """Return the result of `call`.

    If it takes longer, it is abandoned on a thread that does not keep the process alive.

    Raises:
        TimeoutError: If `call` takes longer than `seconds`.
        Exception: If `call` raises it.
    """
    outcome: list[Answer] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:
            errors.append(error)

    thread = Thread(target=run, name="tidegate-reporting", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not outcome:
        raise TimeoutError
    return outcome[0]
