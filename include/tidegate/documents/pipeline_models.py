"""The types of the documents about pipelines, one for each route of the API.

A list comes in pages. Give `next_key`, `next_before` or `next_index` to get the next page; it is null after the last.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from tidegate.documents.audit import AuditLine
from tidegate.reading.answer import Document, Moment, MomentOrNone
from tidegate.reading.checkpoint_answers import DagRun
from tidegate.reading.history_answers import Point, ValidatedTarget
from tidegate.reading.pipeline_answers import DoubtAt, Overview, PipelineLine, SourceAt, StateAt, TableAt


class NextRun(Document):
    """The next scheduled run of a DAG; -1 if it has no schedule, or if there will be no further run."""

    dag_id: str
    run_after: MomentOrNone = Field(serialization_alias="run_after_timestamp")
    is_paused: bool


class Pipeline(PipelineLine):
    next_runs: list[NextRun]


class PipelineOverview(Overview):
    next_runs: list[NextRun]


class Pipelines(Document):
    pipelines: list[Pipeline]
    next_key: str | None
    total: int


class Series(Document):
    points: tuple[Point, ...]


class Sources(Document):
    sources: tuple[SourceAt, ...]


class States(Document):
    operators: tuple[StateAt, ...]


class Tables(Document):
    tables: tuple[TableAt, ...]


class Doubts(Document):
    doubts: tuple[DoubtAt, ...]


class ValidatedTargets(Document):
    targets: tuple[ValidatedTarget, ...]


class RequestOnPage(Document):
    request_id: str
    by: str
    origin: str
    at: Moment
    dag_run: DagRun


class PlanDocument(Document):
    """A restore that was requested on a page.

    `plan` is as `tidegate restore --dry-run -o json` prints it. For each source it has the number of `missing_files`
    and the first of their names.
    """

    request_id: str
    pipeline: str
    to: str
    requested: RequestOnPage
    planned_at: MomentOrNone
    plan: Mapping[str, Any] | None
    digest: str | None
    refusal: str | None
    confirmed: RequestOnPage | None
    accepted: Mapping[str, Any] | None
    answer: AuditLine | None


class Token(Document):
    token: str


class Errors(Document):
    """The errors of a request, as sentences."""

    errors: list[str]
