"""Access to the columns of keyed state, as stored and as defined, and to single keys of it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.schema.operator_state import OperatorState
from tidegate.protocol.schema.state_schema import StateSchema


class StateSchemas(Protocol):
    """The columns of keyed state. Methods return None if they cannot determine them."""

    def stored(self, state: OperatorState, storage_url: str | None = None) -> StateSchema | None:
        """Return the schema in which an operator's state was last written. The state lies at `storage_url`, by default
        on the pipeline's checkpoint storage. Raises `StateSchemaError`, `StateIntegrityError`, `StorageError`."""
        ...

    def defined(self, operator_id: str) -> StateSchema | None:
        """Return the schema of a keyed operator in the definition. Types that only Spark can determine may be None. May
        open a Spark session. Raises `CheckpointError`s."""
        ...


class KeyReader(Protocol):
    """Reads the state and positions of checkpoints without the pipeline's definition. Raises `StorageError`,
    `StateIntegrityError`, `StateSchemaError`, `ConfigurationError`."""

    def key_columns(self, state: OperatorState) -> Sequence[tuple[str, str]]:
        """Return the names of the key columns, and their types as Spark calls them."""
        ...

    def row_of(self, state: OperatorState, key: Sequence[str | None]) -> Mapping[str, Any] | None:
        """Read the row of the key with these values, as JSON; None if there is none. Text stands for a value of any
        type.

        Raises `IllegalRequestError` for values that do not fit the key columns.
        """
        ...

    def files_of(self, position: StateHandle, checkpoint_id: int) -> Sequence[tuple[str, int]]:
        """List the files that a checkpoint has read, with their bytes, from the source's file on checkpoint storage."""
        ...
