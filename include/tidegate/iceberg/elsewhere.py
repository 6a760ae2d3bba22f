"""Tables of another catalog, such as a REST catalog. They change after the commit, by one commit in that catalog.

The tag of a checkpoint makes sure that its commit happens once. The commit also moves the tag of the newest attempt,
and the catalog requires that tag to be unchanged since it was read. So an attempt that was stopped and overtaken fails,
whatever has happened since. Several tables change in one commit if the catalog supports that, and one by one otherwise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import (
    CommitTableRequest,
    CreateTableTransaction,
    StagedTable,
    Table,
    TableIdentifier,
)
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, TableRequirement

from tidegate.iceberg import rest
from tidegate.iceberg.catalogs import catalog_of, explained
from tidegate.iceberg.changes import Forward, given_up
from tidegate.iceberg.draft import IO, Draft
from tidegate.iceberg.names import ATTEMPT, TAG, WITHDRAWN, TableName, tagged
from tidegate.iceberg.swapping import Work
from tidegate.ports import CommitAttempt
from tidegate.protocol.facts.errors import CheckpointError, SinkUnavailableError, SupersededAttemptError

#: How often a commit is tried if other writers were faster, or its answer was lost.
_TRIES = 5


def location_of(name: TableName) -> str | None:
    """Return the metadata file of the table; None if there is no table. Raise `SinkError`, `MissingConnectionError`."""
    table = _loaded(name)
    return None if table is None else table.metadata_location


def commit(works: Sequence[Work], attempt: CommitAttempt) -> Iterator[tuple[Work, list[str]]]:
    """Change tables of one catalog unless they have the change already. Yield each piece of work when it is done, with
    the files that its table no longer refers to. Raise `SinkError`, `SupersededAttemptError`."""
    together = len(works) > 1 and rest.takes_several(catalog_of(works[0].name))
    for group in [works] if together else [[each] for each in works]:
        released = _commit(group, attempt)
        yield from ((work, released[work.name]) for work in group)


@dataclass(frozen=True, slots=True)
class _Step:
    """The change of one table."""

    table: Table
    draft: Draft
    requirements: tuple[TableRequirement, ...]

    def request(self) -> CommitTableRequest:
        *namespace, name = self.table.name()
        identifier = TableIdentifier.model_validate({"namespace": namespace, "name": name})
        return CommitTableRequest(identifier=identifier, requirements=self.requirements, updates=self.draft.updates)


def _commit(works: Sequence[Work], attempt: CommitAttempt) -> dict[TableName, list[str]]:
    released: dict[TableName, list[str]] = {each.name: [] for each in works}
    unknown: Exception | None = None
    for _ in range(_TRIES):
        steps = {each.name: step for each in works if (step := _step(each, attempt)) is not None}
        if not steps:
            return released
        released |= {name: given_up(step.draft) for name, step in steps.items()}
        attempt.confirm()
        try:
            _send(list(steps.values()))
        except CommitFailedException:
            unknown = None
        except (CommitStateUnknownException, OSError) as error:
            unknown = error  # the tables show whether it was carried out
        except Exception as error:
            raise explained(works[0].name, error) from error
        else:
            return released
    if unknown is not None:
        raise explained(works[0].name, unknown) from unknown
    occasion = works[0].occasion
    raise SinkUnavailableError(
        f"{occasion.what}: other writers have changed it {_TRIES} times meanwhile. {occasion.safe} Then "
        f"{occasion.again}."
    )


def _send(steps: Sequence[_Step]) -> None:
    catalog = steps[0].table.catalog
    if len(steps) > 1:
        rest.commit_together(catalog, [step.request() for step in steps])
    else:
        [step] = steps
        catalog.commit_table(step.table, step.requirements, step.draft.updates)


def _step(work: Work, attempt: CommitAttempt) -> _Step | None:
    """Return the change that is left to do; None if the table has it already."""
    table = _loaded(work.name)
    if table is None and _create(work, attempt):
        table = _loaded(work.name)
    if table is None:
        return None
    refs, id_ = table.metadata.refs, work.checkpoint_id
    _require_newest(work.name, refs, attempt)
    if not work.back and id_ is not None and not {f"{TAG}{id_}", f"{WITHDRAWN}{id_}"}.isdisjoint(refs):
        return None
    draft = work.change.draft(table.metadata_location)
    if draft is None or not draft.changed:
        return None
    return _Step(table, draft, tuple(_take_over(draft, refs, attempt)))


def _loaded(name: TableName) -> Table | None:
    catalog = catalog_of(name)
    try:
        return catalog.load_table(name.identifier)
    except NoSuchTableError:
        return None
    except CheckpointError:
        raise
    except Exception as error:
        raise explained(name, error) from error


def _create(work: Work, attempt: CommitAttempt) -> bool:
    """Create the table, without rows yet. Return whether it exists."""
    metadata = work.change.new_table() if isinstance(work.change, Forward) else None
    if metadata is None:
        return False
    name, catalog = work.name, catalog_of(work.name)
    attempt.confirm()
    try:
        catalog.create_namespace_if_not_exists(name.identifier[:-1])
        staged = StagedTable(name.identifier, metadata, "", IO, catalog)
        CreateTableTransaction(staged).commit_transaction()
    except (CommitFailedException, TableAlreadyExistsError):
        return True  # another attempt was faster
    except Exception as error:
        raise explained(name, error) from error
    return True


def _require_newest(name: TableName, refs: Any, attempt: CommitAttempt) -> None:
    newest = max(tagged(refs, ATTEMPT), default=0)
    if newest > attempt.number:
        raise SupersededAttemptError(
            f"Attempt {attempt.number} at the table {name} was overtaken by attempt {newest}. Nothing was changed."
        )


def _take_over(draft: Draft, refs: Any, attempt: CommitAttempt) -> list[TableRequirement]:
    """Move the tag of the newest attempt to this one. Return the requirements for the catalog to check."""
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
