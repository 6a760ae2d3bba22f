"""Tells any number of subscribers that pipelines have changed, over one listening connection for all of them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum


class What(StrEnum):
    CHANGED = "changed"  # something about the pipelines was committed
    LOST = "lost"  # the connection to the database is lost; it is being opened again
    BACK = "back"  # it is open (again): ask anew, what happened in between was not heard


@dataclass(frozen=True, slots=True)
class Change:
    """`pipelines` are those that changed; empty if `what` is about the connection."""

    what: What
    pipelines: frozenset[str] = frozenset()


class Changes:
    """Begins to listen with the first subscriber and ends with the last, or when told to. The connection is opened
    again by itself."""

    async def subscribe(self) -> AsyncIterator[Change]:
        """Changes until the subscriber leaves or this is closed; the first is `BACK` as soon as it listens."""
        raise NotImplementedError
        yield

    def close(self) -> None:
        """End all subscriptions and the thread that listens."""
