"""All questions, in one place. Each is answered on a connection of its own, as of one moment."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tidegate.ports import KeyReader, ReadableStorage
from tidegate.postgres import audit, reads, restore_plans, snapshots
from tidegate.postgres.outcomes import explain
from tidegate.protocol.facts.errors import CheckpointNotFoundError, PipelineNotFoundError
from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId
from tidegate.protocol.observing.actions import AuditRecord
from tidegate.protocol.recovery.restores_on_pages import PlannedRestore
from tidegate.reading import contents, dags, history, need, overview, parts, quality, summary
from tidegate.reading.asked_for import with_checkpoints
from tidegate.reading.changes import Changes
from tidegate.reading.checkpoint import checkpoint_details, whole_checkpoint
from tidegate.reading.checkpoint_answers import CheckpointDetails, FileList, SubtaskList, Verdict, WholeCheckpoint
from tidegate.reading.cuts import TablesAt, tables_at
from tidegate.reading.described import MetadataFiles
from tidegate.reading.doubts import all_doubts, doubts_of
from tidegate.reading.history_answers import (
    CheckpointStatistics,
    History,
    HistoryFilter,
    HoldAt,
    JudgedTarget,
    Point,
    QualityHistory,
)
from tidegate.reading.lag_answers import PartLag
from tidegate.reading.lookup import Lookups, find_split, find_states
from tidegate.reading.pipeline_answers import (
    Configuration,
    DoubtAt,
    FilesRead,
    KeyLookup,
    Overview,
    PipelineLine,
    PipelineList,
    SourceAt,
    StateAt,
    TableAt,
)

Answer = TypeVar("Answer")
_EVERYTHING = HistoryFilter()


class Readings:
    """What the database knows. Thread-safe. Every method may raise `StoreUnavailableError`, and those about a pipeline
    or checkpoint that there is not, `PipelineNotFoundError` or `CheckpointNotFoundError`. A place in a list that is
    none raises `IllegalRequestError`."""

    def __init__(
        self,
        engine: Engine,
        now: Callable[[], datetime],
        open_storage: Callable[[], ReadableStorage],
        keys: KeyReader,
        listening: Engine | None = None,
    ) -> None:
        """`listening` reaches the same database without a pooler, if `engine` has one in between. `open_storage`
        is called when a `_metadata` is first needed; `keys` reads state on that storage."""
        self._engine = engine
        self._reading = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._now = now
        self._files = MetadataFiles(open_storage)
        self._lookups = Lookups(keys, now)
        self.changes = Changes(listening or engine)

    # -- all pipelines

    def pipelines(
        self, readable: frozenset[str] | None = None, after: str | None = None, limit: int = 50, text: str = ""
    ) -> PipelineList:
        """What needs somebody first. `readable` are the ids of the DAGs that the user may read, None for all: a
        pipeline is listed if one of its DAGs is among them, or if it has none. `after` is a `next_key`. `text` is part
        of the name. What a pipeline needs may change between two pages: then it may be on both, or on neither."""
        return self._ask(lambda c: need.list_pipelines(c, self._now(), readable, after, limit, text))

    def dags(self, pipeline_id: str) -> tuple[str, ...]:
        """The ids of the DAGs that have asked for its checkpoints; none if the pipeline is unknown."""
        return tuple(dag.dag_id for dag in self._ask(lambda c: dags.dags_of(c, pipeline_id)))

    def all_dags(self) -> tuple[str, ...]:
        """The ids of the DAGs of all pipelines."""
        return tuple(self._ask(dags.all_dags))

    def pipelines_of_dag(self, dag_id: str) -> tuple[str, ...]:
        """The pipelines that this DAG has asked for checkpoints of, by name."""
        return tuple(self._ask(lambda c: dags.pipelines_of(c, dag_id)))

    def checkpoints_of_run(self, dag_id: str, run_id: str) -> tuple[tuple[str, int], ...]:
        """The pipeline and id of each checkpoint that this DAG run has asked for; of one pipeline the newest first."""
        return tuple(self._ask(lambda c: dags.checkpoints_of_run(c, dag_id, run_id)))

    # -- one pipeline

    def pipeline(self, pipeline_id: str) -> PipelineRecord:
        """Its row alone."""
        found = self._ask(lambda c: reads.pipeline(c, pipeline_id))
        if found is None:
            raise self._no_pipeline(pipeline_id)
        return found

    def line(self, pipeline_id: str) -> PipelineLine:
        """The pipeline as the list of all shows it."""
        found = self._ask(lambda c: need.one_pipeline(c, self._now(), pipeline_id))
        if found is None:
            raise self._no_pipeline(pipeline_id)
        return found

    def parts_behind(self, pipeline_id: str) -> tuple[PartLag, ...]:
        """How far it is behind in each part that its sources have by name; empty if they have none."""
        return self._of(pipeline_id, lambda c: contents.parts_behind(c, pipeline_id))

    def overview(self, pipeline_id: str) -> Overview:
        """The pipeline at its latest completed checkpoint."""
        found = self._ask(lambda c: overview.overview(c, pipeline_id, self._now(), self._files))
        if found is None:
            raise self._no_pipeline(pipeline_id)
        return found

    def history(
        self, pipeline_id: str, wanted: HistoryFilter = _EVERYTHING, before: int | None = None, limit: int = 50
    ) -> History:
        """`before` is a checkpoint id: only older ones are shown."""
        return self._of(pipeline_id, lambda c: history.page(c, pipeline_id, wanted, before, limit, now=self._now()))

    def summary(self, pipeline_id: str) -> CheckpointStatistics:
        def asked(connection: Connection) -> CheckpointStatistics | None:
            pipeline = reads.pipeline(connection, pipeline_id)
            return None if pipeline is None else summary.summary(connection, pipeline)

        found = self._ask(asked)
        if found is None:
            raise self._no_pipeline(pipeline_id)
        return found

    def series(
        self, pipeline_id: str, points: int = 200, since: datetime | None = None, until: datetime | None = None
    ) -> tuple[Point, ...]:
        """The newest completed checkpoints of that time, up to `PERCENTILE_WINDOW`, oldest first, put together to at
        most so many points; `values` by the names in `SERIES`."""
        found = self._of(pipeline_id, lambda c: summary.series(c, pipeline_id, points, since, until))
        return found

    def configuration(self, pipeline_id: str) -> Configuration:
        """Of the checkpoints that are kept: what becomes of the others' `_metadata` is not recorded elsewhere."""
        kept = self._of(pipeline_id, lambda c: overview.newest_kept(c, pipeline_id))
        return overview.configuration(kept, self._files)

    def sources(self, pipeline_id: str, checkpoint_id: int | None = None) -> tuple[SourceAt, ...]:
        """At a checkpoint, by default the latest completed; empty without one."""
        return self._at(pipeline_id, checkpoint_id, contents.sources_at)

    def files_read(self, pipeline_id: str, operator_id: str, index: int, checkpoint_id: int | None = None) -> FilesRead:
        """What a split of a source has read in a checkpoint. See `find_split` and `Lookups.files_read` for what it
        raises."""
        split = SubtaskId(operator_id, index)
        return self._lookups.files_read(
            self._of(pipeline_id, lambda c: find_split(c, pipeline_id, split, checkpoint_id))
        )

    def state(self, pipeline_id: str, checkpoint_id: int | None = None) -> tuple[StateAt, ...]:
        """As `sources`."""
        return self._at(pipeline_id, checkpoint_id, contents.state_at)

    def key(
        self,
        pipeline_id: str,
        operator_id: str,
        checkpoint_id: int | None = None,
        key: Sequence[str | None] | None = None,
    ) -> KeyLookup:
        """A key's row, and its history; without a `key` the columns it has. See `Lookups.look_up` and `find_states` for
        what it raises."""
        states = self._of(pipeline_id, lambda c: find_states(c, pipeline_id, operator_id, checkpoint_id))
        return self._lookups.look_up(states, key)

    def tables(self, pipeline_id: str) -> tuple[TableAt, ...]:
        return self._of(pipeline_id, lambda c: contents.tables_of(c, pipeline_id, self._files))

    def doubts(self, pipeline_id: str | None = None) -> tuple[DoubtAt, ...]:
        """What has completed, and not every table shows it yet: of a pipeline, or of all, by name; oldest first."""
        if pipeline_id is None:
            return self._ask(lambda c: all_doubts(c, self._now()))
        return self._of(pipeline_id, lambda c: doubts_of(c, pipeline_id, self._now()))

    def tables_at(self, pipeline_id: str, checkpoint_id: int | None = None, sinks: Collection[str] = ()) -> TablesAt:
        """What tables are read with as of a checkpoint; by default as of the newest that these sinks, or all, show. See
        `choose_cut` for what it raises."""
        return self._of(pipeline_id, lambda c: tables_at(c, pipeline_id, checkpoint_id, sinks, self._files))

    def newest_completed(self, pipeline_id: str) -> int | None:
        """Whatever its sinks show; None if there is none."""
        found = self._of(pipeline_id, lambda c: reads.latest_completed(c, pipeline_id))
        return None if found is None else found.checkpoint_id

    def judged(self, pipeline_id: str) -> tuple[JudgedTarget, ...]:
        """By target and suite."""
        return self._of(pipeline_id, lambda c: quality.judged_targets(c, pipeline_id, self._now()))

    def quality(
        self, pipeline_id: str, target: str, suite: str, before: int | None = None, limit: int = 200
    ) -> QualityHistory:
        """`before` is a checkpoint id: only older verdicts are shown."""
        question = (pipeline_id, target, suite, before, limit, self._now())
        return self._of(pipeline_id, lambda c: quality.quality_history(c, *question))

    def audit(self, pipeline_id: str, before: int | None = None, limit: int = 50) -> tuple[AuditRecord, ...]:
        """What people asked for, and the answers, newest first, with the checkpoint that came of a request. `before` is
        the number of a record: only older ones are shown."""

        def asked(connection: Connection) -> tuple[AuditRecord, ...]:
            return with_checkpoints(connection, pipeline_id, audit.newest(connection, pipeline_id, limit, before))

        return self._of(pipeline_id, asked)

    def planned_restore(self, pipeline_id: str, request_id: str) -> PlannedRestore | None:
        """The restore whose plan somebody has asked for on a page."""
        return self._of(pipeline_id, lambda c: restore_plans.find(c, pipeline_id, request_id))

    def audited(self, pipeline_id: str, request_id: str) -> AuditRecord | None:
        """What somebody asked for with this id, and the answer."""
        return self._of(pipeline_id, lambda c: audit.find(c, pipeline_id, request_id))

    # -- one checkpoint

    def checkpoint(self, pipeline_id: str, checkpoint_id: int) -> CheckpointDetails:
        found = self._ask(lambda c: checkpoint_details(c, pipeline_id, checkpoint_id, self._now()))
        if found is None:
            raise self._no_checkpoint(pipeline_id, checkpoint_id)
        return found

    def hold(self, pipeline_id: str, checkpoint_id: int) -> HoldAt | None:
        """How it waited for a person; None if it never did."""
        return quality.hold_at(self._record(pipeline_id, checkpoint_id), self._now())

    def verdicts(self, pipeline_id: str, checkpoint_id: int) -> tuple[Verdict, ...]:
        """With their findings and failing rows."""
        self._record(pipeline_id, checkpoint_id)
        return tuple(map(Verdict.model_validate, self._ask(lambda c: reads.verdicts_of(c, pipeline_id, checkpoint_id))))

    def subtasks(
        self, pipeline_id: str, checkpoint_id: int, operator_id: str, after: int = -1, limit: int = 200
    ) -> SubtaskList:
        """`after` is the index of a subtask: only later ones are shown. Empty for an operator that it has not."""
        record = self._record(pipeline_id, checkpoint_id)
        return self._ask(lambda c: parts.subtask_page(c, record, operator_id, after, limit))

    def whole_checkpoint(self, pipeline_id: str, checkpoint_id: int) -> WholeCheckpoint:
        """With every subtask."""
        record, found = self._record(pipeline_id, checkpoint_id), self.checkpoint(pipeline_id, checkpoint_id)
        subtasks = self._ask(lambda c: snapshots.subtasks_of(c, pipeline_id, checkpoint_id))
        return whole_checkpoint(record, found, subtasks)

    def files(self, pipeline_id: str, checkpoint_id: int, after: str | None = None, limit: int = 200) -> FileList:
        """`after` is a `next_key`."""
        self._record(pipeline_id, checkpoint_id)
        return self._ask(lambda c: parts.file_page(c, pipeline_id, checkpoint_id, after, limit))

    def metadata(self, pipeline_id: str, checkpoint_id: int) -> bytes:
        """The content of its `_metadata`. Raises `CheckpointNotFoundError` if it has none, `StorageError`,
        `StateIntegrityError` or `MetadataError` if that cannot be read."""
        if self._record(pipeline_id, checkpoint_id).metadata_path is None:
            raise CheckpointNotFoundError(
                f"Checkpoint {checkpoint_id} of pipeline {pipeline_id} has no _metadata: it has not completed. Nothing "
                "was changed."
            )
        return self._files.content(pipeline_id, checkpoint_id)

    def close(self) -> None:
        """End what listens, and close the connections."""
        self.changes.close()
        self._engine.dispose()

    # -- inside

    def _ask(self, question: Callable[[Connection], Answer]) -> Answer:
        what = "reading what a page shows"
        try:
            connection = self._reading.connect()
        except (DBAPIError, PoolTimeoutError) as error:
            raise explain(error, what) from error
        try:
            return question(connection)
        except DBAPIError as error:
            raise explain(error, what) from error
        finally:
            with suppress(DBAPIError):  # a broken one; the first error is kept
                connection.close()

    def _of(self, pipeline_id: str, question: Callable[[Connection], Answer]) -> Answer:
        def known(connection: Connection) -> Answer:
            if reads.pipeline(connection, pipeline_id) is None:
                raise self._no_pipeline(pipeline_id)
            return question(connection)

        return self._ask(known)

    def _at(
        self,
        pipeline_id: str,
        checkpoint_id: int | None,
        question: Callable[[Connection, CheckpointRecord], tuple[Answer, ...]],
    ) -> tuple[Answer, ...]:
        def asked(connection: Connection) -> tuple[Answer, ...]:
            if checkpoint_id is None:
                record = reads.latest_completed(connection, pipeline_id)
                return () if record is None else question(connection, record)
            record = reads.checkpoint(connection, pipeline_id, checkpoint_id)
            if record is None:
                raise self._no_checkpoint(pipeline_id, checkpoint_id)
            return question(connection, record)

        return self._of(pipeline_id, asked)

    def _record(self, pipeline_id: str, checkpoint_id: int) -> CheckpointRecord:
        record = self._ask(lambda c: reads.checkpoint(c, pipeline_id, checkpoint_id))
        if record is None:
            raise self._no_checkpoint(pipeline_id, checkpoint_id)
        return record

    def _no_pipeline(self, pipeline_id: str) -> PipelineNotFoundError:
        return PipelineNotFoundError(f"There is no pipeline {pipeline_id!r} in this database. Nothing was changed.")

    def _no_checkpoint(self, pipeline_id: str, checkpoint_id: int) -> CheckpointNotFoundError:
        return CheckpointNotFoundError(
            f"Pipeline {pipeline_id!r} has no checkpoint {checkpoint_id} in this database. Nothing was changed. "
            f"`tidegate checkpoints {pipeline_id}` lists those it has."
        )
