"""What an Iceberg table is called, where its files lie, and which of them a checkpoint wrote."""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID, uuid4

from tidegate.postgres_sink.names import Target
from tidegate.protocol.facts.errors import PipelineDefinitionError

#: The name under which the catalog keeps its tables.
CATALOG = "tidegate"
#: Below the place of the table: data and metadata, as other writers of Iceberg call them.
DATA, METADATA = "data", "metadata"
#: The snapshot of a checkpoint that a restore can go back to has a tag: its own, or of one that a restore left behind.
TAG, WITHDRAWN = "chk-", "withdrawn-chk-"
#: What the table was before its first checkpoint, if it was there.
BEFORE = "chk-0"
#: In a catalog elsewhere, the newest attempt at committing has a tag, which its commit takes from the one before.
ATTEMPT = "tidegate-attempt-"

_LONGEST = 255
#: The first half of the UUID of what a restore has written.
_RESTORE = 0xFFFFFFFF
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: For so long a restore may be at work. What it wrote and does not use by then is garbage.
_RESTORE_ENDS = 86_400


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of a catalog: its namespace, with dots if it has several levels, and its name. `catalog`: as pyiceberg's
    configuration calls it; None is the one in the store's database."""

    namespace: str
    name: str
    catalog: str | None = None

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"

    @property
    def identifier(self) -> tuple[str, ...]:
        return (*self.namespace.split("."), self.name)

    @property
    def target(self) -> Target:
        """How it stands among the tables of sinks. No table in Postgres is called so: its schema has no dot."""
        where = "" if self.catalog is None else f"{self.catalog}:"
        return Target(f"iceberg.{where}{self.namespace}", self.name)


def table_name(table: str, catalog: str | None = None, of: str = "IcebergSink") -> TableName:
    """The table that a user has named, as `namespace.name`, for a sink or source. Raises `PipelineDefinitionError`."""
    namespace, dot, name = table.rpartition(".")
    parts = [*namespace.split("."), name]
    if not dot or any(not part or part.strip() != part or "/" in part or "\0" in part for part in parts):
        raise PipelineDefinitionError(
            f"{of}({table!r}): write the table as 'namespace.name', without slashes and spaces around the parts."
        )
    if len(namespace) > _LONGEST or len(name) > _LONGEST:
        raise PipelineDefinitionError(f"{of}({table!r}): namespace and name have at most {_LONGEST} characters each.")
    return TableName(namespace, name, catalog)


def written_by(checkpoint_id: int) -> UUID:
    """A UUID for the metadata files of one attempt at a checkpoint, which says in its first half which one that is."""
    return UUID(int=checkpoint_id << 64 | uuid4().int >> 64)


def written_by_restore() -> UUID:
    """The same for what leads a table back, or takes snapshots out of it: it says when."""
    return UUID(int=(_RESTORE << 32 | int(time.time())) << 64 | uuid4().int >> 64)


def checkpoint_of(file: str, newest: int) -> int | None:
    """The checkpoint, up to the newest one that the table has, which a metadata file is of by its name; None if it is
    another one's or somebody else's. Files that a restore wrote long ago count as of the newest."""
    found = _UUID.search(file)
    if found is None:
        return None
    first = UUID(found[0]).int >> 64
    if first >> 32 == _RESTORE:
        return newest if time.time() - (first & 0xFFFFFFFF) > _RESTORE_ENDS else None
    return first if 0 < first <= newest else None


def tagged(refs: Iterable[str], prefix: str) -> dict[int, str]:
    """The tags of checkpoints among names of references, by checkpoint. `prefix`: `TAG` or `WITHDRAWN`."""
    found = {}
    for ref in refs:
        rest = ref.removeprefix(prefix)
        if ref.startswith(prefix) and rest.isdecimal() and ref != BEFORE:
            found[int(rest)] = ref
    return found
