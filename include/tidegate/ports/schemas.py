"""What the columns of keyed state are, as it was written and as a definition says; and single keys of it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.schema.operator_state import OperatorState
from tidegate.protocol.schema.state_schema import StateSchema


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


class KeyReader(Protocol):
    """Reads what checkpoints have written, without the pipeline's definition. Raises `StorageError`,
    `StateIntegrityError`, `StateSchemaError`, `ConfigurationError`."""

    def key_columns(self, state: OperatorState) -> Sequence[tuple[str, str]]:
        """Their names, and their types as Spark calls them."""
        ...

    def row_of(self, state: OperatorState, key: Sequence[str | None]) -> Mapping[str, Any] | None:
        """The row of the key with these values, as JSON; None if there is none. Text stands for a value of any type.

        Raises `IllegalRequestError` for values that do not fit the key columns.
        """
        ...

    def files_of(self, position: StateHandle, checkpoint_id: int) -> Sequence[tuple[str, int]]:
        """The files, with their bytes, that a checkpoint has read, from the file in which a source keeps such."""
        ...
