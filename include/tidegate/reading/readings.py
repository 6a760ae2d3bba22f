"""All questions, in one class. Each is answered on a connection of its own, as of one moment."""

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
    Point,
    QualityHistory,
    ValidatedTarget,
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
    """The contents of the database. Thread-safe.

    Every method may raise `StoreUnavailableError`. Methods about a pipeline or checkpoint raise `PipelineNotFoundError`
    or `CheckpointNotFoundError` if it does not exist. A position in a list that is not valid raises
    `IllegalRequestError`.
    """

    def __init__(
        self,
        engine: Engine,
        now: Callable[[], datetime],
        open_storage: Callable[[], ReadableStorage],
        keys: KeyReader,
        listening: Engine | None = None,
    ) -> None:
        """Read through `engine`. `listening` reaches the same database without a pooler, if `engine` goes through one.

        `open_storage` is called when a `_metadata` file is first needed; `keys` reads state on that storage.
        """
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
        """List pipelines, the most urgent first.

        `readable` are the ids of the DAGs that the user may read, None for all: a pipeline is listed if one of its DAGs
        is among them, or if it has none. `after` is a `next_key`. `text` is part of the name. A pipeline's need may
        change between two pages; then it may be on both, or on neither.
        """
        return self._ask(lambda c: need.list_pipelines(c, self._now(), readable, after, limit, text))

    def dags(self, pipeline_id: str) -> tuple[str, ...]:
        """Return the ids of the DAGs that have requested checkpoints of the pipeline; none if it is unknown."""
        return tuple(dag.dag_id for dag in self._ask(lambda c: dags.dags_of(c, pipeline_id)))

    def all_dags(self) -> tuple[str, ...]:
        """Return the ids of the DAGs of all pipelines."""
        return tuple(self._ask(dags.all_dags))

    def pipelines_of_dag(self, dag_id: str) -> tuple[str, ...]:
        """Return the names of the pipelines whose checkpoints this DAG has requested."""
        return tuple(self._ask(lambda c: dags.pipelines_of(c, dag_id)))

    def checkpoints_of_run(self, dag_id: str, run_id: str) -> tuple[tuple[str, int], ...]:
        """Return pipeline and id of each checkpoint that this DAG run has requested, each pipeline's newest first."""
        return tuple(self._ask(lambda c: dags.checkpoints_of_run(c, dag_id, run_id)))

    # -- one pipeline

    def pipeline(self, pipeline_id: str) -> PipelineRecord:
        """Return the pipeline's row alone."""
        record = self._ask(lambda c: reads.pipeline(c, pipeline_id))
        if record is None:
            raise self._no_pipeline(pipeline_id)
        return record

    def line(self, pipeline_id: str) -> PipelineLine:
        """Return the pipeline's line in the list of all."""
        line = self._ask(lambda c: need.one_pipeline(c, self._now(), pipeline_id))
        if line is None:
            raise self._no_pipeline(pipeline_id)
        return line

    def parts_behind(self, pipeline_id: str) -> tuple[PartLag, ...]:
        """Return the lag of each named part of its sources; empty if they have none."""
        return self._of(pipeline_id, lambda c: contents.parts_behind(c, pipeline_id))

    def overview(self, pipeline_id: str) -> Overview:
        """Return the pipeline at its latest completed checkpoint."""
        answer = self._ask(lambda c: overview.overview(c, pipeline_id, self._now(), self._files))
        if answer is None:
            raise self._no_pipeline(pipeline_id)
        return answer

    def history(
        self, pipeline_id: str, wanted: HistoryFilter = _EVERYTHING, before: int | None = None, limit: int = 50
    ) -> History:
        """Return a page of checkpoints. `before` is a checkpoint id: only older ones are shown."""
        return self._of(pipeline_id, lambda c: history.page(c, pipeline_id, wanted, before, limit, now=self._now()))

    def summary(self, pipeline_id: str) -> CheckpointStatistics:
        def question(connection: Connection) -> CheckpointStatistics | None:
            pipeline = reads.pipeline(connection, pipeline_id)
            return None if pipeline is None else summary.summary(connection, pipeline)

        answer = self._ask(question)
        if answer is None:
            raise self._no_pipeline(pipeline_id)
        return answer

    def series(
        self, pipeline_id: str, points: int = 200, since: datetime | None = None, until: datetime | None = None
    ) -> tuple[Point, ...]:
        """Return the newest `PERCENTILE_WINDOW` completed checkpoints of that time as at most `points`, oldest first.

        `values` are by the names in `SERIES`.
        """
        return self._of(pipeline_id, lambda c: summary.series(c, pipeline_id, points, since, until))

    def configuration(self, pipeline_id: str) -> Configuration:
        """Return the options of the retained checkpoints. Those of others are only in `_metadata`."""
        kept = self._of(pipeline_id, lambda c: overview.newest_kept(c, pipeline_id))
        return overview.configuration(kept, self._files)

    def sources(self, pipeline_id: str, checkpoint_id: int | None = None) -> tuple[SourceAt, ...]:
        """Return the sources at a checkpoint, by default the latest completed; empty if none has completed."""
        return self._at(pipeline_id, checkpoint_id, contents.sources_at)

    def files_read(self, pipeline_id: str, operator_id: str, index: int, checkpoint_id: int | None = None) -> FilesRead:
        """Return the files that a split has read in a checkpoint. Errors: `find_split`, `Lookups.files_read`."""
        split = SubtaskId(operator_id, index)
        return self._lookups.files_read(
            self._of(pipeline_id, lambda c: find_split(c, pipeline_id, split, checkpoint_id))
        )

    def state(self, pipeline_id: str, checkpoint_id: int | None = None) -> tuple[StateAt, ...]:
        """Return keyed state at a checkpoint, chosen as in `sources`."""
        return self._at(pipeline_id, checkpoint_id, contents.state_at)

    def key(
        self,
        pipeline_id: str,
        operator_id: str,
        checkpoint_id: int | None = None,
        key: Sequence[str | None] | None = None,
    ) -> KeyLookup:
        """Return a key's row and history, or the key columns. Errors: `Lookups.look_up`, `find_states`."""
        states = self._of(pipeline_id, lambda c: find_states(c, pipeline_id, operator_id, checkpoint_id))
        return self._lookups.look_up(states, key)

    def tables(self, pipeline_id: str) -> tuple[TableAt, ...]:
        return self._of(pipeline_id, lambda c: contents.tables_of(c, pipeline_id, self._files))

    def doubts(self, pipeline_id: str | None = None) -> tuple[DoubtAt, ...]:
        """Return completed checkpoints that not every table shows yet, of one pipeline or of all, oldest first."""
        if pipeline_id is None:
            return self._ask(lambda c: all_doubts(c, self._now()))
        return self._of(pipeline_id, lambda c: doubts_of(c, pipeline_id, self._now()))

    def tables_at(self, pipeline_id: str, checkpoint_id: int | None = None, sinks: Collection[str] = ()) -> TablesAt:
        """Return the facts to read tables as of a checkpoint, by default the newest of these sinks (`choose_cut`)."""
        return self._of(pipeline_id, lambda c: tables_at(c, pipeline_id, checkpoint_id, sinks, self._files))

    def newest_completed(self, pipeline_id: str) -> int | None:
        """Return the id of the newest completed checkpoint, regardless of its sinks; None if there is none."""
        record = self._of(pipeline_id, lambda c: reads.latest_completed(c, pipeline_id))
        return None if record is None else record.checkpoint_id

    def validated_targets(self, pipeline_id: str) -> tuple[ValidatedTarget, ...]:
        """Return the validated targets, by target and suite."""
        return self._of(pipeline_id, lambda c: quality.validated_targets(c, pipeline_id, self._now()))

    def quality(
        self, pipeline_id: str, target: str, suite: str, before: int | None = None, limit: int = 200
    ) -> QualityHistory:
        """Return verdicts on one target by one suite. `before` is a checkpoint id: only older ones are shown."""
        question = (pipeline_id, target, suite, before, limit, self._now())
        return self._of(pipeline_id, lambda c: quality.quality_history(c, *question))

    def audit(self, pipeline_id: str, before: int | None = None, limit: int = 50) -> tuple[AuditRecord, ...]:
        """Return audit entries with their checkpoints, newest first, those before the number `before`."""

        def question(connection: Connection) -> tuple[AuditRecord, ...]:
            return with_checkpoints(connection, pipeline_id, audit.newest(connection, pipeline_id, limit, before))

        return self._of(pipeline_id, question)

    def planned_restore(self, pipeline_id: str, request_id: str) -> PlannedRestore | None:
        """Return the restore whose plan was requested on a page."""
        return self._of(pipeline_id, lambda c: restore_plans.find(c, pipeline_id, request_id))

    def audited(self, pipeline_id: str, request_id: str) -> AuditRecord | None:
        """Return the request with this id, and its answer."""
        return self._of(pipeline_id, lambda c: audit.find(c, pipeline_id, request_id))

    # -- one checkpoint

    def checkpoint(self, pipeline_id: str, checkpoint_id: int) -> CheckpointDetails:
        details = self._ask(lambda c: checkpoint_details(c, pipeline_id, checkpoint_id, self._now()))
        if details is None:
            raise self._no_checkpoint(pipeline_id, checkpoint_id)
        return details

    def hold(self, pipeline_id: str, checkpoint_id: int) -> HoldAt | None:
        """Return how the checkpoint waited for approval; None if it never did."""
        return quality.hold_at(self._record(pipeline_id, checkpoint_id), self._now())

    def verdicts(self, pipeline_id: str, checkpoint_id: int) -> tuple[Verdict, ...]:
        """Return the verdicts with their findings and failing rows."""
        self._record(pipeline_id, checkpoint_id)
        return tuple(map(Verdict.model_validate, self._ask(lambda c: reads.verdicts_of(c, pipeline_id, checkpoint_id))))

    def subtasks(
        self, pipeline_id: str, checkpoint_id: int, operator_id: str, after: int = -1, limit: int = 200
    ) -> SubtaskList:
        """Return a page of subtasks, those after an index `after`; empty for an unknown operator."""
        record = self._record(pipeline_id, checkpoint_id)
        return self._ask(lambda c: parts.subtask_page(c, record, operator_id, after, limit))

    def whole_checkpoint(self, pipeline_id: str, checkpoint_id: int) -> WholeCheckpoint:
        """Return the checkpoint with every subtask."""
        record, details = self._record(pipeline_id, checkpoint_id), self.checkpoint(pipeline_id, checkpoint_id)
        subtasks = self._ask(lambda c: snapshots.subtasks_of(c, pipeline_id, checkpoint_id))
        return whole_checkpoint(record, details, subtasks)

    def files(self, pipeline_id: str, checkpoint_id: int, after: str | None = None, limit: int = 200) -> FileList:
        """Return a page of files. `after` is a `next_key`."""
        self._record(pipeline_id, checkpoint_id)
        return self._ask(lambda c: parts.file_page(c, pipeline_id, checkpoint_id, after, limit))

    def metadata(self, pipeline_id: str, checkpoint_id: int) -> bytes:
        """Return the content of its `_metadata`.

        Raises:
            CheckpointNotFoundError: If it has none.
            StorageError: If it cannot be read.
            StateIntegrityError: If its content is damaged.
            MetadataError: If it is not the metadata of this checkpoint.
        """
        if self._record(pipeline_id, checkpoint_id).metadata_path is None:
            raise CheckpointNotFoundError(
                f"Checkpoint {checkpoint_id} of pipeline {pipeline_id} has no _metadata, because it has not completed. "
                "Nothing was changed."
            )
        return self._files.content(pipeline_id, checkpoint_id)

    def close(self) -> None:
        """Stop listening, and close the connections."""
        self.changes.close()
        self._engine.dispose()

    # -- inside

    def _ask(self, question: Callable[[Connection], Answer]) -> Answer:
        what = "reading for a page"
        try:
            connection = self._reading.connect()
        except (DBAPIError, PoolTimeoutError) as error:
            raise explain(error, what) from error
        try:
            return question(connection)
        except DBAPIError as error:
            raise explain(error, what) from error
        finally:
            with suppress(DBAPIError):  # a broken connection; the first error is kept
                connection.close()

    def _of(self, pipeline_id: str, question: Callable[[Connection], Answer]) -> Answer:
        def checked(connection: Connection) -> Answer:
            if reads.pipeline(connection, pipeline_id) is None:
                raise self._no_pipeline(pipeline_id)
            return question(connection)

        return self._ask(checked)

    def _at(
        self,
        pipeline_id: str,
        checkpoint_id: int | None,
        question: Callable[[Connection, CheckpointRecord], tuple[Answer, ...]],
    ) -> tuple[Answer, ...]:
        def answered(connection: Connection) -> tuple[Answer, ...]:
            if checkpoint_id is None:
                record = reads.latest_completed(connection, pipeline_id)
                return () if record is None else question(connection, record)
            record = reads.checkpoint(connection, pipeline_id, checkpoint_id)
            if record is None:
                raise self._no_checkpoint(pipeline_id, checkpoint_id)
            return question(connection, record)

        return self._of(pipeline_id, answered)

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
