"""What a table and the tables beside it are called."""

from dataclasses import dataclass
from hashlib import sha256

from tidegate.postgres.roles import SINKS_SCHEMA
from tidegate.protocol.facts.errors import PipelineDefinitionError

#: The schema of everything that sinks keep beside their tables: positions, loaded rows, and what a restore needs.
#: `tidegate db upgrade` makes it in the store's database; in another one the sink's role does, or its administrator.
SCHEMA = SINKS_SCHEMA
#: The checkpoint that a row of an appended table belongs to.
CHECKPOINT = "_checkpoint"
#: Whether a row says that its key is gone. It is no column of the table.
DELETE = "_delete"
#: Of a name, in bytes: Postgres cuts longer ones off.
LONGEST = 63


@dataclass(frozen=True, slots=True)
class Target:
    """A table by its schema and name, as they are, unquoted."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def hash(self) -> str:
        return sha256(str(self).encode()).hexdigest()[:16]

    def loaded(self, checkpoint_id: int, unique: str) -> str:
        """The table with the loaded rows of a checkpoint: each attempt has its own."""
        return f"{self.loaded_prefix}{checkpoint_id}_{unique}"

    @property
    def loaded_prefix(self) -> str:
        return f"loaded_{self.hash}_"

    def checkpoint_of(self, loaded: str) -> int:
        """The checkpoint of a table of loaded rows."""
        return int(loaded.removeprefix(self.loaded_prefix).partition("_")[0])

    @property
    def before(self) -> str:
        """The rows of changed keys as they were before, by checkpoint."""
        return f"before_{self.hash}"

    @property
    def after(self) -> str:
        """The rows that checkpoints had made which a restore has left behind."""
        return f"after_{self.hash}"

    @property
    def withdrawn(self) -> str:
        """The rows of checkpoints that a restore has left behind."""
        return f"withdrawn_{self.hash}"


def target_of(table: str, of: str = "PostgresSink") -> Target:
    """The table that a user has named, as `name` or `schema.name`, of a connector. Raises `PipelineDefinitionError`."""
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
