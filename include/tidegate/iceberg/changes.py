"""The changes of a table by a checkpoint, a restore or a cleaning.

A change is staged outside of the transaction. If another writer has committed since, it is staged again inside.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, SetPropertiesUpdate

from tidegate.iceberg import keeping
from tidegate.iceberg.data_files import footers, listed, new_table, schema_of
from tidegate.iceberg.draft import Draft
from tidegate.iceberg.evolution import Evolution
from tidegate.iceberg.files import location
from tidegate.iceberg.names import BEFORE, TAG, WITHDRAWN, TableName, tagged, written_by, written_by_restore
from tidegate.iceberg.partitions import PartitionBy
from tidegate.iceberg.reach import released
from tidegate.iceberg.writing import LAST
from tidegate.ports import Branch, StateHandle
from tidegate.postgres_sink.refusals import Occasion, unfit
from tidegate.protocol.facts.errors import RowsRefusedError


@dataclass(frozen=True, slots=True)
class TableOptions:
    """A table and the options of its sink. `root` is the directory of its files, `pipeline` the owner of the sink."""

    name: TableName
    root: str
    pipeline: str
    replaced: bool
    partition_by: Sequence[PartitionBy]
    renamed: Mapping[str, str]
    create: bool


@dataclass(frozen=True, slots=True)
class Staged:
    """The next metadata file of a table (`location`), made from the present one (`base`). Without a location nothing
    changes. `released` are the files that the table then no longer refers to."""

    base: str | None
    location: str | None = None
    released: tuple[str, ...] = ()


class Change(Protocol):
    def draft(self, base: str | None) -> Draft | None:
        """Draft the next state of the table that has this metadata file, or None if there is no table. Return None if
        nothing changes. Raise `SinkError`."""
        ...


@dataclass
class Forward:
    """The rows of a checkpoint. For `kept`, see `keeping.expire`."""

    options: TableOptions
    checkpoint_id: int
    staged: Sequence[StateHandle]
    kept: Collection[int] | None
    occasion: Occasion
    _footers: dict[str, pq.FileMetaData] = field(default_factory=dict)

    def draft(self, base: str | None) -> Draft | None:
        if base is None and not self.staged:
            return None
        draft = self._begun(base)
        self._begin(draft)
        files = self._files(draft)
        if self.options.replaced:
            require_own(draft, self.occasion, self.options)
            draft.replace(files)
        elif files or draft.head is None:
            draft.append(files)
        keeping.note(draft, self.checkpoint_id)
        keeping.expire(draft, self.kept)
        return draft

    def _read(self) -> dict[str, pq.FileMetaData]:
        if not self._footers:
            self._footers = footers(self.options.root, self.staged)
        return self._footers

    def new_table(self) -> TableMetadata | None:
        """Return a new table; None while there are no rows, which determine its columns. Raise `SinkError`."""
        if not self.staged:
            return None
        if not self.options.create:
            raise unfit(self.occasion, ["it does not exist, and create=False: make it, or let the sink make it"])
        schema = schema_of(self._read()[self.staged[0].path])
        return new_table(location(self.options.root), schema, self.options.partition_by)

    def _begun(self, base: str | None) -> Draft:
        uuid, properties = written_by(self.checkpoint_id), summary(self.options, self.checkpoint_id)
        if base is not None:
            draft = Draft.of(base, uuid, properties)
            require_writable(draft.metadata, self.occasion)
            return draft
        made = self.new_table()
        assert made is not None
        return Draft(made, None, uuid, properties)

    def _files(self, draft: Draft) -> list[DataFile]:
        """Return the staged files as files of the table, which gets their columns."""
        self._evolve(draft)
        return list(listed(location(self.options.root), draft, self.staged, self._read()))

    def _evolve(self, draft: Draft) -> None:
        for handle in self.staged:
            schema, rows = draft.metadata.schema(), schema_of(self._read()[handle.path])
            evolution = Evolution(self.options.renamed, int(handle.details.get(LAST, 0)))
            evolved = evolution.schema(schema, rows)
            if evolution.problems:
                raise unfit(self.occasion, evolution.problems)
            if evolved.as_struct() != schema.as_struct():
                number = max(each.schema_id for each in draft.metadata.schemas) + 1
                evolved = evolved.model_copy(update={"schema_id": number})
                draft.apply(
                    AddSchemaUpdate.model_validate({"schema": evolved}),
                    SetCurrentSchemaUpdate.model_validate({"schema-id": -1}),
                )

    def _begin(self, draft: Draft) -> None:
        """Tag the snapshot that the table had before its first checkpoint, so that it can be restored, too."""
        if keeping.FIRST in draft.metadata.properties:
            return
        if draft.head is not None:
            draft.refer(BEFORE, draft.head.snapshot_id)
        draft.apply(SetPropertiesUpdate(updates={keeping.FIRST: str(self.checkpoint_id)}))


@dataclass(frozen=True, slots=True)
class Back:
    """The rows that the checkpoints of a branch have put into the table. `staged`: the files of the restored
    checkpoint. If it was left behind before it was committed here, `instead` is the newest one of the branch that
    was; 0 for none."""

    options: TableOptions
    checkpoint_id: int
    branch: Branch
    staged: Sequence[StateHandle]
    occasion: Occasion
    instead: int | None = None

    def draft(self, base: str | None) -> Draft | None:
        if base is None:
            return None
        draft = self._begun(base)
        before, refs = draft.metadata, draft.metadata.refs
        if keeping.FIRST not in before.properties:
            return None
        shows = self._shows(draft)
        found = _tag_of(draft, shows)
        self._remember_head(draft)
        keeping.withdraw(draft, self.branch)
        if found is not None:
            draft.show(found.snapshot_id)
        elif shows < int(before.properties[keeping.FIRST]):
            draft.show(refs[BEFORE].snapshot_id if BEFORE in refs else None)
            if BEFORE not in refs:
                draft.append(())
        elif self.options.replaced and self.staged:
            draft.replace(self._files(draft))
            keeping.note(draft, self.checkpoint_id)
        else:
            raise RowsRefusedError(
                f"{self.occasion.what}: its snapshot does not exist any more, because its tag {TAG}{shows} was "
                f"removed. {self.occasion.safe} Restore a checkpoint for which the table has a tag; then repeat the "
                "step."
            )
        if shows != self.checkpoint_id and shows != self.instead:  # otherwise its commit follows, and finds no tag
            keeping.note(draft, self.checkpoint_id)
        return draft

    def _shows(self, draft: Draft) -> int:
        """Return the checkpoint whose rows the table then has. It is another one if the restored one adds no rows and
        was imported from a savepoint, or was the first after a restore: such a checkpoint has no tag yet."""
        (first, _), *before = self.branch.spans
        is_tagged = _tag_of(draft, self.checkpoint_id) is not None
        followed = before[0][1] if before and first == self.checkpoint_id and not (is_tagged or self.staged) else None
        if followed is None and self.instead is not None and not is_tagged:
            return self.instead
        return self.checkpoint_id if followed is None else followed

    def _begun(self, base: str) -> Draft:
        return Draft.of(base, written_by_restore(), summary(self.options, self.checkpoint_id))

    def _files(self, draft: Draft) -> list[DataFile]:
        root = self.options.root
        return list(listed(location(root), draft, self.staged, footers(root, self.staged)))

    def _remember_head(self, draft: Draft) -> None:
        """Let the newest checkpoint's tag include the later snapshots of other writers, so that they come back with
        it."""
        ids = tagged(draft.metadata.refs, TAG)
        newest = max(ids, default=0)
        if draft.head is not None and newest and newest not in self.branch:
            draft.refer(ids[newest], draft.head.snapshot_id)


def _tag_of(draft: Draft, checkpoint_id: int) -> SnapshotRef | None:
    refs = draft.metadata.refs
    return refs.get(f"{TAG}{checkpoint_id}") or refs.get(f"{WITHDRAWN}{checkpoint_id}")


@dataclass(frozen=True, slots=True)
class Without:
    """The table without the withdrawn rows of some checkpoints that a restore has left behind."""

    options: TableOptions
    checkpoint_ids: Collection[int]

    def draft(self, base: str | None) -> Draft | None:
        if base is None:
            return None
        draft = self._begun(base)
        for id_, tag in tagged(draft.metadata.refs, WITHDRAWN).items():
            if id_ in self.checkpoint_ids:
                draft.release(tag)
        if draft.changed:
            draft.expire(keeping.unreferenced(draft))
        return draft

    def _begun(self, base: str) -> Draft:
        return Draft.of(base, written_by_restore(), {})


def summary(options: TableOptions, checkpoint_id: int) -> dict[str, str]:
    return {keeping.CHECKPOINT: str(checkpoint_id), keeping.PIPELINE: options.pipeline}


def staged(change: Change, base: str | None) -> Staged:
    """Write the next metadata of the table that has this metadata file (None: no table). Raise `SinkError`."""
    draft = change.draft(base)
    if draft is None or (not draft.changed and base is not None):
        return Staged(base)
    return Staged(base, draft.write(), tuple(given_up(draft)))


def given_up(draft: Draft) -> list[str]:
    """Return the files that the table no longer refers to once it is as drafted."""
    return [] if draft.before is None else released(draft.before, draft.metadata)


def require_own(draft: Draft, occasion: Occasion, options: TableOptions) -> None:
    """Check that no other writer has changed the rows of a table that is replaced. Raise `SinkError`."""
    head = draft.head
    if head is None or keeping.is_own(head) or (BEFORE in draft.metadata.refs and _is_first(draft)):
        return
    raise RowsRefusedError(
        f"{occasion.what}: another writer has committed snapshot {head.snapshot_id} "
        f"({head.summary.operation.value if head.summary else 'of unknown kind'}), which this commit would undo. "
        f"{occasion.safe} Roll table {options.name} back to its newest tag {TAG}…, or restore the pipeline, which does "
        f"that; then {occasion.again}."
    )


def _is_first(draft: Draft) -> bool:
    return not tagged(draft.metadata.refs, TAG)


def require_writable(metadata: TableMetadata, occasion: Occasion) -> None:
    if metadata.format_version > 2:
        raise unfit(occasion, [f"it has format version {metadata.format_version}, and only 1 and 2 can be written"])
