"""What a checkpoint, a restore or a cleaning makes of a table, whatever it is at that moment.

A change is staged outside of the transaction. If somebody else has committed since, it is staged again inside.
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
    """A table, and what its sink says of it. `root`: where its files lie, `pipeline` whose it is."""

    name: TableName
    root: str
    pipeline: str
    replaced: bool
    partition_by: Sequence[PartitionBy]
    renamed: Mapping[str, str]
    create: bool


@dataclass(frozen=True, slots=True)
class Staged:
    """The next metadata file of a table whose present one is the base. Without a location nothing changes. `released`:
    files that the table does not refer to any more then."""

    base: str | None
    location: str | None = None
    released: tuple[str, ...] = ()


class Change(Protocol):
    def draft(self, base: str | None) -> Draft | None:
        """Make what becomes of the table that has this metadata file, or None if it is not there. Returns None if
        nothing does. Raises `SinkError`."""
        ...


@dataclass
class Forward:
    """The rows of a checkpoint. `kept`: see `keeping.expire`."""

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
        """The table as it is made; None if there are no rows yet, which say what columns it has. Raises `SinkError`."""
        if not self.staged:
            return None
        if not self.options.create:
            raise unfit(self.occasion, ["it is not there, and create=False: make it, or let the sink make it"])
        schema = schema_of(self._read()[self.staged[0].path])
        return new_table(location(self.options.root), schema, self.options.partition_by)

    def _begun(self, base: str | None) -> Draft:
        uuid, said = written_by(self.checkpoint_id), summary(self.options, self.checkpoint_id)
        if base is not None:
            draft = Draft.of(base, uuid, said)
            require_writable(draft.metadata, self.occasion)
            return draft
        made = self.new_table()
        assert made is not None
        return Draft(made, None, uuid, said)

    def _files(self, draft: Draft) -> list[DataFile]:
        """The staged files as files of the table, which gets their columns."""
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
        """What the table was before its first checkpoint can be restored, too."""
        if keeping.FIRST in draft.metadata.properties:
            return
        if draft.head is not None:
            draft.refer(BEFORE, draft.head.snapshot_id)
        draft.apply(SetPropertiesUpdate(updates={keeping.FIRST: str(self.checkpoint_id)}))


@dataclass(frozen=True, slots=True)
class Back:
    """What the checkpoints of a branch have made of the table. `staged`: the files of the restored checkpoint."""

    options: TableOptions
    checkpoint_id: int
    branch: Branch
    staged: Sequence[StateHandle]
    occasion: Occasion

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
                f"{self.occasion.what}: its snapshot is not there any more. Somebody has removed the tag "
                f"{TAG}{shows}. {self.occasion.safe} Restore a checkpoint that the table has a tag of; then repeat the "
                "step."
            )
        if shows != self.checkpoint_id:
            keeping.note(draft, self.checkpoint_id)
        return draft

    def _shows(self, draft: Draft) -> int:
        """The checkpoint whose rows it has: another one if it adds none and was imported from a savepoint, or was the
        first after a restore. Then it has no tag before the table goes back to it."""
        (first, _), *before = self.branch.spans
        is_tagged = _tag_of(draft, self.checkpoint_id) is not None
        followed = before[0][1] if before and first == self.checkpoint_id and not (is_tagged or self.staged) else None
        return self.checkpoint_id if followed is None else followed

    def _begun(self, base: str) -> Draft:
        return Draft.of(base, written_by_restore(), summary(self.options, self.checkpoint_id))

    def _files(self, draft: Draft) -> list[DataFile]:
        root = self.options.root
        return list(listed(location(root), draft, self.staged, footers(root, self.staged)))

    def _remember_head(self, draft: Draft) -> None:
        """What others have done since the newest checkpoint comes back with it."""
        ids = tagged(draft.metadata.refs, TAG)
        newest = max(ids, default=0)
        if draft.head is not None and newest and newest not in self.branch:
            draft.refer(ids[newest], draft.head.snapshot_id)


def _tag_of(draft: Draft, checkpoint_id: int) -> SnapshotRef | None:
    refs = draft.metadata.refs
    return refs.get(f"{TAG}{checkpoint_id}") or refs.get(f"{WITHDRAWN}{checkpoint_id}")


@dataclass(frozen=True, slots=True)
class Without:
    """The table without what a restore has left behind of some checkpoints."""

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
    """Write what becomes of the table that has this metadata file; None if it is not there. Raises `SinkError`."""
    draft = change.draft(base)
    if draft is None or (not draft.changed and base is not None):
        return Staged(base)
    return Staged(base, draft.write(), tuple(given_up(draft)))


def given_up(draft: Draft) -> list[str]:
    """The files that the table does not refer to any more once it is as drafted."""
    return [] if draft.before is None else released(draft.before, draft.metadata)


def require_own(draft: Draft, occasion: Occasion, options: TableOptions) -> None:
    """Nobody else may change the rows of a table that is replaced. Raises `SinkError`."""
    head = draft.head
    if head is None or keeping.is_own(head) or (BEFORE in draft.metadata.refs and _is_first(draft)):
        return
    raise RowsRefusedError(
        f"{occasion.what}: somebody else has committed snapshot {head.snapshot_id} "
        f"({head.summary.operation.value if head.summary else 'of unknown kind'}), which it would undo. "
        f"{occasion.safe} Roll table {options.name} back to its newest tag {TAG}…, or restore the pipeline, which does "
        f"that; then {occasion.again}."
    )


def _is_first(draft: Draft) -> bool:
    return not tagged(draft.metadata.refs, TAG)


def require_writable(metadata: TableMetadata, occasion: Occasion) -> None:
    if metadata.format_version > 2:
        raise unfit(occasion, [f"it has format version {metadata.format_version}, and only 1 and 2 can be written"])
