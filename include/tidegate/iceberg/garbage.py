"""The files that a table refers to, and the deletion of those that it no longer refers to."""

import json
from collections.abc import Collection, Sequence
from datetime import timedelta

from tidegate.iceberg.files import location as location_of
from tidegate.iceberg.files import opened
from tidegate.iceberg.names import METADATA, TableName, checkpoint_of
from tidegate.iceberg.places import location_now
from tidegate.iceberg.reach import files_of
from tidegate.iceberg.swapping import NOW, lingering, released_before, with_kept, without
from tidegate.ports import CheckpointStorage
from tidegate.postgres_sink import positions
from tidegate.postgres_sink.databases import connected


def referenced(name: TableName, root: str, paths: Sequence[str]) -> list[str]:
    """Return those of the files below a root that the table refers to in any snapshot, or has released so recently that
    a reader may still have them open."""
    location = location_now(name)
    if location is None:
        return []
    reach, place = files_of(location), location_of(root)
    with connected(None, name.target) as connection:
        taken = {*reach.data, *reach.metadata, *lingering(positions.shown(connection, name.target).content)}
    return [path for path in paths if f"{place}/{path}" in taken]


def find_released(name: TableName, root: str, seconds: float, readable_for: timedelta) -> list[str]:
    """Return the released files below a root, relative to it, that no reader needs at that time."""
    with connected(None, name.target) as connection:
        content = positions.shown(connection, name.target).content
    place = f"{location_of(root)}/"
    found = released_before(content, seconds, readable_for)
    return [file.removeprefix(place) for file in found if file.startswith(place)]


def delete_released(name: TableName, root: str, kept: Collection[int] | None, readable_for: timedelta) -> None:
    """Delete the files that a table has released long enough ago. `kept` are the checkpoints that a restore can go back
    to, whose snapshots the next commit keeps; None if they have not changed."""
    location = location_now(name)
    with connected(None, name.target) as connection:
        if location is None or positions.shown(connection, name.target).content is None:
            return
        statements = positions.OwnStatements(connection)
        content = positions.lock(statements, name.target, None).content
        now = float(statements.query(NOW)[0][0])
        content = json.dumps(with_kept(content, kept, now))
        positions.record(statements, name.target, content)
    deleted = _delete(root, location, released_before(content, now, readable_for))
    if not deleted:
        return
    with connected(None, name.target) as connection:
        statements = positions.OwnStatements(connection)
        content = positions.lock(statements, name.target, None).content
        positions.record(statements, name.target, json.dumps(without(content, deleted)))


def _delete(root: str, location: str, files: Collection[str]) -> list[str]:
    """Return the files that are gone. A file that the table refers to again stays. Files outside the root are only
    taken off the list."""
    if not files:
        return []
    reach, place = files_of(location), f"{location_of(root)}/"
    gone = [file for file in files if file not in reach.data and file not in reach.metadata]
    for file in gone:
        if file.startswith(place):
            storage, path = opened(file)
            storage.delete([path])
    return gone


def metadata_files(name: TableName, storage: CheckpointStorage) -> dict[int, list[str]]:
    """Return metadata files by checkpoint, for checkpoints that the table has. Files of later ones may still be
    needed."""
    with connected(None, name.target) as connection:
        newest, _ = positions.numbers(connection, name.target)
    found: dict[int, list[str]] = {}
    for path in storage.list(METADATA):
        if (id_ := checkpoint_of(path, newest)) is not None:
            found.setdefault(id_, []).append(path)
    return found
