"""Sinks whose place says whose it is."""

from typing import Protocol, runtime_checkable

from tidegate.protocol.recovery.ownership import Owner


@runtime_checkable
class OwnedSink(Protocol):
    """A sink whose place has one owner, which a mark in it names: see `protocol.recovery.ownership`. Without this
    ability, two pipelines that write to one place are not found out before they commit."""

    def owner(self) -> Owner | None:
        """Whose the place is; None if it has no mark."""
        ...

    def mark(self, owner: Owner) -> Owner:
        """Make the place the owner's if it has no mark, in one step: of two at once both learn whose it is. Returns
        that."""
        ...

    def mark_anew(self, owner: Owner) -> None:
        """Make the place the owner's, whosever it is."""
        ...

    def is_used(self) -> bool:
        """Whether anything but the mark lies there: rows that readers see, or files of a pipeline."""
        ...
