"""What a source or sink of a system outside may say of it besides."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class RemoteEndpoint(Protocol):
    """A source or sink of a system that is reached by a connection."""

    def reached(self) -> str:
        """Look whether the system answers, and has what is read or written. It takes seconds at most.

        Returns:
            What was found, without secrets.

        Raises:
            CheckpointError: If it does not answer, refuses, or has no such thing.
        """
        ...

    def dataset(self) -> tuple[str, str]:
        """Name what is read or written as catalogues do: see OpenLineage's naming of datasets.

        Returns:
            The namespace and the name.

        Raises:
            CheckpointError: If the connection is not there.
        """
        ...
