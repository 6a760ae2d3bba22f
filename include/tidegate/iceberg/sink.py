"""`IcebergSink`: an Iceberg table that changes together with the checkpoint."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from tidegate.iceberg.columns import without_type
from tidegate.iceberg.names import DATA, METADATA, WITHDRAWN, TableName, table_name, tagged
from tidegate.iceberg.partitions import PartitionBy, partition_by
from tidegate.iceberg.places import location_now
from tidegate.iceberg.swapping import Work, kept_of
from tidegate.iceberg.work import carry_out, swap
from tidegate.iceberg.writing import IcebergWriter
from tidegate.ports import (
    ArrowRows,
    Branch,
    CommitAttempt,
    Participant,
    SinkCommit,
    SinkInput,
    StateHandle,
    TableFiles,
    Withdrawn,
)
from tidegate.postgres_sink import positions
from tidegate.postgres_sink.databases import connected
from tidegate.postgres_sink.refusals import forward, outside, rewind
from tidegate.protocol.facts.errors import (
    ConfigurationError,
    PipelineDefinitionError,
    SinkUnavailableError,
)
from tidegate.protocol.recovery.ownership import Owner
from tidegate.protocol.steps.applied import Applied
from tidegate.protocol.text.durations import duration
from tidegate.protocol.text.masking import holds_secret
from tidegate.settings import absolute
from tidegate.sinks import staging
from tidegate.sinks.encoding import ambiguous
from tidegate.sinks.staged_parquet import StagedParquet

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.iceberg.changes import TableOptions

    Members = Sequence[tuple["IcebergSink", Sequence[StateHandle]]]

_INPUTS = {"append": SinkInput.CHANGES, "latest": SinkInput.CURRENT}


@dataclass(frozen=True)
class IcebergSink(StagedParquet):
    """An Iceberg table whose catalog is in the metadata database. It changes in the transaction that
    completes a checkpoint, so readers see the rows of a checkpoint in all such tables in the same instant.

    Spark's tasks write the Parquet files at their final place. The commit writes metadata, and one value in the
    catalog. Each checkpoint that can be restored is a tag of the table, `chk-<id>`. A restore takes the table back to
    it.

    Args:
        table: `namespace.name`.
        mode: `"append"`: each checkpoint adds rows. `"latest"`: the table has the current rows of an operator's state,
            and each checkpoint replaces the files of the subtasks whose state has changed.
        warehouse: The directory, or a URL such as `s3://lake`, below which tables are, each in `<namespace>/<name>`.
        partition_by: The partitioning of a table that the sink makes: columns, and `year(c)`, `month(c)`, `day(c)`,
            `hour(c)`, `bucket(N, c)` or `truncate(N, c)`.
        renamed: Columns of the table that have another name in the rows now: their new names by the old ones.
        create: Whether to make the table if it does not exist.
        readable_for: How long files stay for readers that have them open, after the table no longer refers to them.
        catalog: The name of another catalog in pyiceberg's configuration. Its tables change after the commit.

    Raises:
        PipelineDefinitionError: If an option is wrong.

    Example:
        ```python
        from tidegate import FileSource, IcebergSink, Pipeline, sum_

        orders = Pipeline("shop").source("orders", FileSource("landing", schema="customer STRING, cents BIGINT"))
        orders.sink("orders", IcebergSink("shop.orders"))
        totals = orders.key_by("customer").aggregate("totals", cents=sum_("cents"))
        totals.sink("totals", IcebergSink("shop.totals", mode="latest"))
        ```
    """

    table: str
    mode: Literal["append", "latest"] = "append"
    warehouse: str = "warehouse"
    partition_by: Sequence[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    create: bool = True
    readable_for: str | timedelta = "5 min"
    catalog: str | None = None

    _folder = DATA

    def __post_init__(self) -> None:
        table_name(self.table, self.catalog)
        if self.mode not in _INPUTS:
            self._refuse(f'the mode is {self.mode!r}, but must be "append" or "latest"')
        try:
            duration(self.readable_for)
        except PipelineDefinitionError as error:
            self._refuse(f"readable_for: {error}".rstrip("."))
        if holds_secret(self.warehouse):
            self._refuse("the warehouse has credentials in it: credentials come from the environment")
        if isinstance(self.partition_by, str):
            self._refuse("partition_by is a list")
        try:
            names = [each.name for each in partition_by(self.partition_by)]
        except PipelineDefinitionError as error:
            self._refuse(str(error).rstrip("."))
        if twice := sorted({name for name in names if names.count(name) > 1}):
            self._refuse(f"partition_by has two fields {twice[0]!r}")

    def _refuse(self, why: str) -> NoReturn:
        raise PipelineDefinitionError(f"IcebergSink({self.table!r}): {why}.")

    @property
    def name(self) -> TableName:
        return table_name(self.table, self.catalog)

    @property
    def fields(self) -> tuple[PartitionBy, ...]:
        return partition_by(self.partition_by)

    @property
    def staged_in(self) -> str:
        return f"{absolute(self.warehouse)}/{self.name.namespace.replace('.', '/')}/{self.name.name}"

    @property
    def commits(self) -> SinkCommit:
        return SinkCommit.IN_THE_COMMIT if self.catalog is None else SinkCommit.AFTER_THE_COMMIT

    @property
    def input(self) -> SinkInput:
        return _INPUTS[self.mode]

    def describe(self) -> dict[str, Any]:
        """See `ports.Sink`. Options that do not change the rows are left out."""
        elsewhere = {} if self.catalog is None else {"catalog": self.catalog}
        return {"type": "IcebergSink", "path": self.root, "table": str(self.name), "mode": self.mode, **elsewhere}

    def unstorable(self, columns: "pa.Schema") -> list[str]:
        """See `ports.TypedSink`. Also checks an existing table, if the database can be reached."""
        found = [*without_type(columns), *ambiguous(columns.names)]
        found += [
            f"the stream has no column {each.column!r}, by which the table is partitioned"
            for each in self.fields
            if each.column not in columns.names
        ]
        if found:
            return found
        from tidegate.iceberg.fitting import problems

        try:
            location = location_now(self.name)
        except (SinkUnavailableError, ConfigurationError):  # the first run finds out, before anything is visible
            return []
        if location is None:
            return [] if self.create else [f"there is no table {self.table}, and create=False: make it"]
        return problems(location, columns, self.fields, self.renamed)

    def writer(self) -> IcebergWriter:  # type: ignore[override]
        """See `ports.Sink`. Staged rows fit the table as it is now."""
        return self.writer_at(self.root)

    def writer_at(self, url: str) -> IcebergWriter:  # type: ignore[override]
        """See `ports.PortableSink`."""
        location, known = location_now(self.name), None
        if location is not None:
            from tidegate.iceberg.data_files import known_at

            known = known_at(location)
        stage_empty = self.input is not SinkInput.CHANGES
        return IcebergWriter(url, DATA, stage_empty, known, self.fields, dict(self.renamed))

    # -- in the commit, and after it

    def prepare(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Participant:
        """See `ports.CommittingSink`."""
        return swap(self._forward(checkpoint_id, staged, None))

    def prepare_rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle]) -> Participant:
        """See `ports.CommittingSink`."""
        return swap(self._back(checkpoint_id, branch, staged, None))

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """See `ports.Sink`. Raises `SinkError`, `SupersededAttemptError`."""
        self.commit_group(checkpoint_id, [(self, staged)], attempt)

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """See `ports.RewindableSink`."""
        self.rewind_group(checkpoint_id, branch, [(self, staged)], attempt)

    @property
    def group(self) -> str | None:
        """See `ports.GroupedSink`: the tables of a catalog elsewhere."""
        return None if self.catalog is None else f"iceberg:{self.catalog}"

    def commit_group(self, checkpoint_id: int, members: "Members", attempt: CommitAttempt) -> None:
        """See `ports.GroupedSink`."""
        left = [(sink, staged) for sink, staged in members if not sink._applied().has(checkpoint_id)]
        carry_out([sink._forward(checkpoint_id, staged, attempt.number) for sink, staged in left], attempt)

    def rewind_group(self, checkpoint_id: int, branch: Branch, members: "Members", attempt: CommitAttempt) -> None:
        """See `ports.RewindableGroupedSink`."""
        carry_out([sink._back(checkpoint_id, branch, staged, attempt.number) for sink, staged in members], attempt)

    def _forward(self, id_: int, staged: Sequence[StateHandle], attempt: int | None) -> Work:
        from tidegate.iceberg.changes import Forward

        occasion = forward(self.name.target, id_, attempt)
        with self._connected() as connection:
            positions.make(connection)
            kept = kept_of(positions.shown(connection, self.name.target).content)
        return Work(self.name, Forward(self._options(), id_, staged, kept, occasion), occasion, id_)

    def _back(self, id_: int, branch: Branch, staged: Sequence[StateHandle], attempt: int | None) -> Work:
        from tidegate.iceberg.changes import Back

        occasion, applied = rewind(self.name.target, id_, attempt), self._applied()
        instead = None if applied.has(id_) else applied.newest_in(branch, id_)
        change = Back(self._options(), id_, branch, staged, occasion, instead)
        return Work(self.name, change, occasion, id_, back=True)

    def _applied(self) -> Applied:
        """Return the checkpoints that the table was given."""
        with self._connected() as connection:
            return positions.applied(connection, self.name.target)

    def _options(self) -> "TableOptions":
        from tidegate.iceberg.changes import TableOptions

        pipeline = self._place.split("/")[1] if self._place else ""
        replaced = self.mode == "latest"
        return TableOptions(self.name, self.root, pipeline, replaced, self.fields, self.renamed, self.create)

    # -- the plan of a restore

    def shown_outside(self, branch: Branch) -> list[Withdrawn]:
        from tidegate.iceberg.fitting import shown_outside

        location = location_now(self.name)
        return [] if location is None else shown_outside(location, branch, self.mode == "latest")

    def withdrawn(self) -> list[int]:
        return sorted(self._tagged(WITHDRAWN))

    def _tagged(self, prefix: str) -> dict[int, str]:
        from tidegate.iceberg.files import read_metadata

        location = location_now(self.name)
        return {} if location is None else tagged(read_metadata(location).refs, prefix)

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        from tidegate.iceberg.changes import Without

        change = Without(self._options(), checkpoint_ids)
        carry_out([Work(self.name, change, outside(self.name.target), None)], attempt)
        self._delete_released(None)

    def forget(self, kept: Collection[int]) -> None:
        """See `ports.JournalingSink`. The next commit removes the snapshots."""
        self._delete_released(kept)

    def _delete_released(self, kept: Collection[int] | None) -> None:
        from tidegate.iceberg.garbage import delete_released

        delete_released(self.name, self.root, kept, duration(self.readable_for))

    def outdated(self, now: datetime) -> list[str]:
        """See `ports.LingeringSink`."""
        from tidegate.iceberg.garbage import find_released

        return find_released(self.name, self.root, now.timestamp(), duration(self.readable_for))

    def remove_outdated(self, attempt: CommitAttempt) -> None:
        self._delete_released(None)  # no attempt can use these files again, so none needs to be fenced

    # -- reading

    def read_at(
        self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle] | None
    ) -> TableFiles | ArrowRows:
        """See `ports.ReadableAtSink`."""
        from tidegate.iceberg.reading import read_at

        return read_at(self.name, checkpoint_id)

    # -- ownership

    def numbers(self) -> tuple[int, int]:
        """See `ports.NumberedSink`. A lost database had the catalog, too, so that only the files are left."""
        with self._connected() as opened:
            newest, attempt = positions.numbers(opened, self.name.target)
        return max([newest, *staging.staged_checkpoints(self.staging(), DATA)]), attempt

    def owner(self) -> Owner | None:
        """See `ports.OwnedSink`."""
        with self._connected() as connection:
            return positions.owner(connection, self.name.target)

    def mark(self, owner: Owner) -> Owner:
        with self._connected() as connection:
            return positions.mark(connection, self.name.target, owner)

    def mark_anew(self, owner: Owner) -> None:
        with self._connected() as connection:
            positions.mark(connection, self.name.target, owner, anew=True)

    def is_used(self) -> bool:
        """Whether a checkpoint has written rows. Rows of other writers do not count, because they stay."""
        return self._applied().newest > 0

    # -- leftovers of crashed attempts

    def referenced(self, paths: Sequence[str]) -> list[str]:
        """See `ports.ReferencingSink`: the files that any branch, tag or snapshot has, or had recently."""
        from tidegate.iceberg import garbage

        return garbage.referenced(self.name, self.root, paths) if paths else []

    def staged_checkpoints(self) -> list[int]:
        return sorted({*super().staged_checkpoints(), *self._metadata_files()})

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        """See `ports.Sink`. Includes metadata files of attempts. Files that the table has taken over are not staged any
        more."""
        found = [*super().staged_paths(checkpoint_id), *self._metadata_files().get(checkpoint_id, ())]
        taken = set(self.referenced(found))
        return [path for path in found if path not in taken]

    def _metadata_files(self) -> dict[int, list[str]]:
        from tidegate.iceberg.garbage import metadata_files

        return metadata_files(self.name, self.staging())

    def discard(self, paths: Sequence[str]) -> None:
        """See `ports.Sink`. Files that the table refers to are never touched."""
        taken = set(self.referenced(paths))
        metadata = [path for path in paths if path.startswith(f"{METADATA}/") and path not in taken]
        super().discard([path for path in paths if path not in taken and not path.startswith(f"{METADATA}/")])
        self.staging().delete(metadata)

    def _connected(self) -> Any:
        return connected(None, self.name.target)
