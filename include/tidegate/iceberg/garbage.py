"""Which files a table refers to, and the deletion of those that it does not any more."""

import json
from collections.abc import Collection, Sequence

from tidegate.iceberg.files import location as location_of
from tidegate.iceberg.files import opened
from tidegate.iceberg.names import TableName
from tidegate.iceberg.places import location_now
from tidegate.iceberg.reach import files_of
from tidegate.iceberg.swapping import RELEASED, contents, with_kept
from tidegate.postgres_sink import positions
from tidegate.postgres_sink.databases import connected


def referenced(root: str, location: str, paths: Sequence[str]) -> list[str]:
    """Those of the files below a root that the table refers to in any snapshot."""
    reach, place = files_of(location), location_of(root)
    return [path for path in paths if f"{place}/{path}" in reach.data or f"{place}/{path}" in reach.metadata]


def delete_released(name: TableName, root: str, kept: Collection[int] | None) -> None:
    """Delete the files that a table has given up. `kept`: the checkpoints that a restore can go back to, of which the
    next commit removes no snapshot; None if they are as before."""
    location = location_now(name)
    with connected(None, name.target) as connection:
        content = positions.shown(connection, name.target).content
    if location is None or content is None:
        return
    deleted = _delete(root, location, contents(content).get(RELEASED, ()))
    with connected(None, name.target) as connection:
        statements = positions.OwnStatements(connection)
        said = with_kept(positions.lock(statements, name.target, None).content, kept, deleted)
        positions.record(statements, name.target, json.dumps(said))


def _delete(root: str, location: str, files: Collection[str]) -> list[str]:
    """Returns the files that are gone. One that the table refers to again stays, and what lies in others' places is
    theirs."""
    if not files:
        return []
    reach, place = files_of(location), f"{location_of(root)}/"
    gone = [file for file in files if file not in reach.data and file not in reach.metadata]
    for file in gone:
        if file.startswith(place):
            storage, path = opened(file)
            storage.delete([path])
    return gone
