"""The optional abilities of a source or sink of an external system."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class RemoteEndpoint(Protocol):
    """A source or sink of a system that is reached through a connection."""

    def reached(self) -> str:
        """Check that the system answers, and has the data set that is read or written. It takes seconds at most.

        Returns:
            The result as text, without secrets.

        Raises:
            CheckpointError: If the system does not answer, refuses, or has no such data set.
        """
        ...

    def dataset(self) -> tuple[str, str]:
        """Name the data set as catalogues do (see OpenLineage's naming of datasets).

        Returns:
            The namespace and the name.

        Raises:
            CheckpointError: If the connection is not there.
        """
        ...
