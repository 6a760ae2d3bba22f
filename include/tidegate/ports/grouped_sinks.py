"""Sinks after the commit that change together, such as the tables of one catalog."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from tidegate.ports.sinks import CommitAttempt
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.records import StateHandle


@runtime_checkable
class GroupedSink(Protocol):
    """A sink after the commit that can change in one step with others of the pipeline. One member of a group is given
    all members. A group of one is committed and rewound as any other sink. Groups of rewindable sinks are
    `RewindableGroupedSink`s."""

    @property
    def group(self) -> str | None:
        """The name of the group; None if this sink changes by itself."""
        ...

    def commit_group(
        self, checkpoint_id: int, members: Sequence[tuple[Any, Sequence[StateHandle]]], attempt: CommitAttempt
    ) -> None:
        """Do what `Sink.commit` does for all sinks of the group, in one step if that is possible. It is fenced and
        idempotent in the same way. Some may have been committed before.

        Args:
            checkpoint_id: The completed checkpoint.
            members: The sinks, this one included, and the files that the checkpoint staged for each.
            attempt: The attempt at committing.

        Raises:
            SupersededAttemptError: If a step fails because a later attempt was here.
        """
        ...


@runtime_checkable
class RewindableGroupedSink(GroupedSink, Protocol):
    """A `RewindableSink` that can go back in one step with the others of its group."""

    def rewind_group(
        self,
        checkpoint_id: int,
        branch: Branch,
        members: Sequence[tuple[Any, Sequence[StateHandle]]],
        attempt: CommitAttempt,
    ) -> None:
        """Do what `RewindableSink.rewind` does for all sinks of the group, as `commit_group`.

        Args:
            checkpoint_id: The restored checkpoint.
            branch: The checkpoints that the pipeline has behind it.
            members: The sinks, this one included, and the files that the restored checkpoint staged for each.
            attempt: The attempt at committing.

        Raises:
            SupersededAttemptError: If a step fails because a later attempt was here.
        """
        ...
