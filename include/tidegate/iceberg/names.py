"""The names of an Iceberg table, its files, tags and snapshots."""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID, uuid4

from tidegate.postgres_sink.names import Target
from tidegate.protocol.facts.errors import PipelineDefinitionError

#: The name of the catalog in the metadata database.
CATALOG = "tidegate"
#: The directories below that of the table, named as other writers of Iceberg name them.
DATA, METADATA = "data", "metadata"
#: Prefixes of the tag of a checkpoint that a restore can go back to. The second is for one that a restore left behind.
TAG, WITHDRAWN = "chk-", "withdrawn-chk-"
#: The tag of the snapshot that the table had before its first checkpoint.
BEFORE = "chk-0"
#: Prefix of the tag of the newest commit attempt, in another catalog. Each commit replaces the tag of the one before.
ATTEMPT = "tidegate-attempt-"

_LONGEST = 255
#: The first half of the UUID in names of files that a restore has written.
_RESTORE = 0xFFFFFFFF
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: The seconds that a restore may take. Files that it has written and does not use by then are garbage.
_RESTORE_ENDS = 86_400


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of a catalog: its namespace, with dots if it has several levels, and its name. `catalog` is the name in
    pyiceberg's configuration; None is the catalog in the metadata database."""

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
        """The table among those of all sinks. No table in Postgres has such a name: its schema has no dot."""
        where = "" if self.catalog is None else f"{self.catalog}:"
        return Target(f"iceberg.{where}{self.namespace}", self.name)


def table_name(table: str, catalog: str | None = None, of: str = "IcebergSink") -> TableName:
    """Parse a table written as `namespace.name`, for a sink or source. Raise `PipelineDefinitionError`."""
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
    """Return a UUID for the metadata files of one attempt at a checkpoint. Its first half is the checkpoint."""
    return UUID(int=checkpoint_id << 64 | uuid4().int >> 64)


def written_by_restore() -> UUID:
    """Return a UUID for the metadata files of a restore or a cleaning. Its first half has the time."""
    return UUID(int=(_RESTORE << 32 | int(time.time())) << 64 | uuid4().int >> 64)


def checkpoint_of(file: str, newest: int) -> int | None:
    """Return the checkpoint of a metadata file by its name, if it is at most `newest`, the newest one of the table.
    None for later checkpoints and files of other writers. Old files of a restore count as of the newest."""
    found = _UUID.search(file)
    if found is None:
        return None
    first = UUID(found[0]).int >> 64
    if first >> 32 == _RESTORE:
        return newest if time.time() - (first & 0xFFFFFFFF) > _RESTORE_ENDS else None
    return first if 0 < first <= newest else None


def tagged(refs: Iterable[str], prefix: str) -> dict[int, str]:
    """Return the names of checkpoints' tags, by checkpoint. `prefix`: `TAG` or `WITHDRAWN`."""
    found = {}
    for ref in refs:
        rest = ref.removeprefix(prefix)
        if ref.startswith(prefix) and rest.isdecimal() and ref != BEFORE:
            found[int(rest)] = ref
    return found
