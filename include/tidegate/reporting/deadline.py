"""Bounds how long a receiver may keep a checkpoint waiting, whatever takes so long: a name server, a connection, an
answer that comes byte by byte."""

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

Answer = TypeVar("Answer")

#: Seconds for one event.
PATIENCE = 10.0


def within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """What `call` returns. Raises what it raises, and `TimeoutError` if it takes longer: then it is left behind, on a
    thread that does not keep the process."""
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
