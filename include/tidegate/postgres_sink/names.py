"""The names of a sink's table and of its side tables."""

from dataclasses import dataclass
from hashlib import sha256

from tidegate.postgres.roles import SINKS_SCHEMA
from tidegate.protocol.facts.errors import PipelineDefinitionError

#: The schema of all that sinks keep apart from their tables: positions, loaded rows, and the rows for restores.
#: `tidegate db upgrade` makes it in the metadata database. In another database, the sink's role or an administrator
#: does.
SCHEMA = SINKS_SCHEMA
#: The column with the checkpoint of a row, in an appended table.
CHECKPOINT = "_checkpoint"
#: The column of rows that marks a deleted key. The table does not have it.
DELETE = "_delete"
#: The longest name in bytes. Postgres truncates longer ones.
LONGEST = 63


@dataclass(frozen=True, slots=True)
class Target:
    """A table by its schema and name, unquoted."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def hash(self) -> str:
        return sha256(str(self).encode()).hexdigest()[:16]

    def loaded(self, checkpoint_id: int, unique: str) -> str:
        """Return the name of a new table for the loaded rows of a checkpoint. Every attempt has its own."""
        return f"{self.loaded_prefix}{checkpoint_id}_{unique}"

    @property
    def loaded_prefix(self) -> str:
        return f"loaded_{self.hash}_"

    def checkpoint_of(self, loaded: str) -> int:
        """Return the checkpoint of a table of loaded rows."""
        return int(loaded.removeprefix(self.loaded_prefix).partition("_")[0])

    @property
    def before(self) -> str:
        """The side table with the previous rows of changed keys, by checkpoint."""
        return f"before_{self.hash}"

    @property
    def after(self) -> str:
        """The side table with changed rows of the checkpoints that a restore has left behind."""
        return f"after_{self.hash}"

    @property
    def withdrawn(self) -> str:
        """The side table with added rows of the checkpoints that a restore has left behind."""
        return f"withdrawn_{self.hash}"


def target_of(table: str, of: str = "PostgresSink") -> Target:
    """Parse a table written as `name` or `schema.name`, for a connector. Raise `PipelineDefinitionError`."""
    schema, dot, name = table.rpartition(".")
    target = Target(schema if dot else "public", name)
    for part in (target.schema, target.name):
        if not part or "." in part or "\0" in part or len(part.encode()) > LONGEST:
            raise PipelineDefinitionError(
                f"{of}({table!r}): write the table as 'name' or 'schema.name', each of at most {LONGEST} "
                "bytes, without quotes."
            )
    if target.schema in (SCHEMA, "tidegate") or target.schema.startswith("pg_"):
        raise PipelineDefinitionError(
            f"{of}({table!r}): the schema {target.schema} is not for tables of users. Take another one."
        )
    return target
