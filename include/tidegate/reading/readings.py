"""All questions, in one place. Each opens a connection of its own for as long as it takes."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Engine

from tidegate.ports import ReadableStorage
from tidegate.protocol.records import SubtaskId, SubtaskRecord, Verdict
from tidegate.reading.checkpoint_answers import CheckpointPage, FileList, SubtaskList
from tidegate.reading.history_answers import (
    History,
    HistoryFilter,
    JudgedTarget,
    PipelineSummary,
    Point,
    QualityHistory,
)
from tidegate.reading.pipeline_answers import (
    Configuration,
    Overview,
    PipelineList,
    SourceAt,
    StateAt,
    TableAt,
)


class Readings:
    """What the database knows. Thread-safe. Every method may raise `StoreUnavailableError`; about a pipeline or
    checkpoint that there is not, `PipelineNotFoundError` or `CheckpointNotFoundError`."""

    def __init__(
        self, engine: Engine, now: Callable[[], datetime], open_storage: Callable[[], ReadableStorage]
    ) -> None:
        """`open_storage` is called when a `_metadata` is first needed."""

    def pipelines(
        self, readable: frozenset[str] | None = None, after: str | None = None, limit: int = 50, text: str = ""
    ) -> PipelineList:
        """What needs somebody first. `readable` are the ids of the DAGs that the user may read, None for all: a
        pipeline is listed if one of its DAGs is among them, or if it has none. `after` is a `next_key`. `text` is part
        of the name."""
        raise NotImplementedError

    def dags(self, pipeline_id: str) -> tuple[str, ...]:
        """The DAGs that have asked for its checkpoints; none if the pipeline is unknown. Raises nothing about it."""
        raise NotImplementedError

    def overview(self, pipeline_id: str) -> Overview:
        raise NotImplementedError

    def history(
        self, pipeline_id: str, wanted: HistoryFilter | None = None, before: int | None = None, limit: int = 50
    ) -> History:
        """`before` is a checkpoint id: only older ones are shown."""
        raise NotImplementedError

    def summary(self, pipeline_id: str) -> PipelineSummary:
        raise NotImplementedError

    def series(
        self, pipeline_id: str, points: int = 200, since: datetime | None = None, until: datetime | None = None
    ) -> tuple[Point, ...]:
        """Completed checkpoints, oldest first, put together to at most so many points; `values` by `SERIES`."""
        raise NotImplementedError

    def configuration(self, pipeline_id: str) -> Configuration:
        raise NotImplementedError

    def sources(self, pipeline_id: str, checkpoint_id: int | None = None) -> tuple[SourceAt, ...]:
        """At a checkpoint, by default the latest completed; empty without one."""
        raise NotImplementedError

    def state(self, pipeline_id: str, checkpoint_id: int | None = None) -> tuple[StateAt, ...]:
        """As `sources`."""
        raise NotImplementedError

    def tables(self, pipeline_id: str) -> tuple[TableAt, ...]:
        raise NotImplementedError

    def judged(self, pipeline_id: str) -> tuple[JudgedTarget, ...]:
        """By target and suite."""
        raise NotImplementedError

    def quality(
        self, pipeline_id: str, target: str, suite: str, before: int | None = None, limit: int = 200
    ) -> QualityHistory:
        raise NotImplementedError

    def verdicts(self, pipeline_id: str, checkpoint_id: int) -> tuple[Verdict, ...]:
        """With their findings and failing rows."""
        raise NotImplementedError

    def checkpoint(self, pipeline_id: str, checkpoint_id: int) -> CheckpointPage:
        raise NotImplementedError

    def subtasks(
        self, pipeline_id: str, checkpoint_id: int, operator_id: str, after: int = -1, limit: int = 200
    ) -> SubtaskList:
        raise NotImplementedError

    def all_subtasks(self, pipeline_id: str, checkpoint_id: int) -> dict[SubtaskId, SubtaskRecord]:
        """For a document that has everything."""
        raise NotImplementedError

    def files(self, pipeline_id: str, checkpoint_id: int, after: str | None = None, limit: int = 200) -> FileList:
        raise NotImplementedError

    def metadata(self, pipeline_id: str, checkpoint_id: int) -> bytes:
        """The content of its `_metadata`. Raises `CheckpointNotFoundError` if it has none, `StorageError` or
        `StateIntegrityError` if that cannot be read."""
        raise NotImplementedError

    def metadata_document(self, pipeline_id: str, checkpoint_id: int) -> dict[str, Any]:
        """The same as JSON; kept for the next question, as it never changes."""
        raise NotImplementedError
