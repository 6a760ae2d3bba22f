"""Tables of another catalog, such as a REST catalog: they change after the commit, by one commit there.

A commit is there once, by the tag of its checkpoint. It takes over the tag of the newest attempt, which the catalog
requires to be where it was: an attempt that was stopped and overtaken fails, whatever has happened since.
"""

from functools import lru_cache
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import CreateTableTransaction, StagedTable, Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, TableRequirement

from tidegate.iceberg.changes import Change, Forward, given_up
from tidegate.iceberg.draft import IO, Draft
from tidegate.iceberg.names import ATTEMPT, TAG, WITHDRAWN, TableName, tagged
from tidegate.ports import CommitAttempt
from tidegate.postgres_sink.refusals import Occasion
from tidegate.protocol.facts.errors import (
    CheckpointError,
    MissingConnectionError,
    SinkUnavailableError,
    SupersededAttemptError,
)

#: How often a commit is tried again if others were faster.
_TRIES = 5


@lru_cache(maxsize=8)
def _catalog(name: str) -> Catalog:
    try:
        return load_catalog(name)
    except ValueError as error:
        raise MissingConnectionError(
            f"There is no catalog {name!r} for an Iceberg table ({error}). Nothing was changed. Define it in "
            f".pyiceberg.yaml, or set PYICEBERG_CATALOG__{name.upper()}__URI, for every process that runs the pipeline."
        ) from error


def _loaded(name: TableName) -> Table | None:
    assert name.catalog is not None
    catalog = _catalog(name.catalog)
    try:
        return catalog.load_table(name.identifier)
    except NoSuchTableError:
        return None
    except CheckpointError:
        raise
    except Exception as error:
        raise _away(name, error) from error


def location_of(name: TableName) -> str | None:
    """The metadata file of the table; None if there is none. Raises `SinkError`, `MissingConnectionError`."""
    table = _loaded(name)
    return None if table is None else table.metadata_location


def commit(
    name: TableName, change: Change, checkpoint_id: int | None, occasion: Occasion, attempt: CommitAttempt
) -> list[str]:
    """Carry a change out, unless the table has it. `checkpoint_id`: of its rows; None if it brings none. Returns the
    files that the table has given up. Raises `SinkError`, `SupersededAttemptError`."""
    for _ in range(_TRIES):
        table = _loaded(name)
        if table is None:
            if not _create(name, change, attempt):
                return []
            continue
        refs = table.metadata.refs
        _require_newest(name, refs, attempt)
        if checkpoint_id is not None and not {f"{TAG}{checkpoint_id}", f"{WITHDRAWN}{checkpoint_id}"}.isdisjoint(refs):
            return []
        draft = change.draft(table.metadata_location)
        if draft is None or not draft.changed:
            return []
        requirements = _take_over(draft, refs, attempt)
        attempt.confirm()
        try:
            table.catalog.commit_table(table, tuple(requirements), draft.updates)
        except CommitFailedException:
            continue
        except Exception as error:  # it may have been carried out: the next attempt looks
            raise _away(name, error) from error
        return given_up(draft)
    raise SinkUnavailableError(
        f"{occasion.what}: others have changed it {_TRIES} times meanwhile. {occasion.safe} Then {occasion.again}."
    )


def _create(name: TableName, change: Change, attempt: CommitAttempt) -> bool:
    """Make the table, without rows yet. Returns whether it is there."""
    metadata = change.new_table() if isinstance(change, Forward) else None
    if metadata is None:
        return False
    assert name.catalog is not None
    catalog = _catalog(name.catalog)
    attempt.confirm()
    try:
        catalog.create_namespace_if_not_exists(name.identifier[:-1])
        staged = StagedTable(name.identifier, metadata, "", IO, catalog)
        CreateTableTransaction(staged).commit_transaction()
    except (CommitFailedException, TableAlreadyExistsError):
        return True  # another attempt was faster
    except Exception as error:
        raise _away(name, error) from error
    return True


def _require_newest(name: TableName, refs: Any, attempt: CommitAttempt) -> None:
    newest = max(tagged(refs, ATTEMPT), default=0)
    if newest > attempt.number:
        raise SupersededAttemptError(
            f"Attempt {attempt.number} at the table {name} was overtaken by attempt {newest}. Nothing was changed."
        )


def _take_over(draft: Draft, refs: Any, attempt: CommitAttempt) -> list[TableRequirement]:
    """Let the tag of the newest attempt be this one's. Returns what the catalog requires for it."""
    before, own = tagged(refs, ATTEMPT), f"{ATTEMPT}{attempt.number}"
    required = {MAIN_BRANCH: refs.get(MAIN_BRANCH)}
    if refs:  # a table without snapshots has nothing else to require, and always has some afterwards
        required |= {own: refs.get(own)} | {tag: refs[tag] for tag in before.values()}
    newest = draft.head or draft.metadata.snapshots[-1]
    for tag in before.values():
        if tag != own:
            draft.release(tag)
    draft.refer(own, newest.snapshot_id)
    asserted = (
        AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": None if ref is None else ref.snapshot_id})
        for name, ref in required.items()
    )
    return [AssertTableUUID(uuid=draft.metadata.table_uuid), *asserted]


def _away(name: TableName, error: Exception) -> SinkUnavailableError:
    said = (str(error).strip().splitlines() or ["no message"])[0].rstrip(".")
    return SinkUnavailableError(
        f"The catalog {name.catalog!r} of table {name} cannot be used ({said}). Rows that are staged are safe, and "
        "readers see what they saw before, or the whole checkpoint. Check that it runs, then repeat the step."
    )
