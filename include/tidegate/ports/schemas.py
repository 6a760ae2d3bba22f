"""What the columns of keyed state are: as it was written, and as a definition says."""

from typing import Protocol

from tidegate.protocol.operator_state import OperatorState
from tidegate.protocol.state_schema import StateSchema


class StateSchemas(Protocol):
    """Answers None where it cannot tell."""

    def stored(self, state: OperatorState, storage_url: str | None = None) -> StateSchema | None:
        """That in which an operator's state was last written; it lies at `storage_url`, by default on the pipeline's
        checkpoint storage. Raises `StateSchemaError`, `StateIntegrityError`,
        `StorageError`."""
        ...

    def defined(self, operator_id: str) -> StateSchema | None:
        """That of a keyed operator of the definition; types that only Spark can tell may be None. May open a Spark
        session. Raises `CheckpointError`s."""
        ...
