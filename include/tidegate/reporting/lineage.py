"""The OpenLineage event of a completed checkpoint: which files or offsets it read, which tables it wrote in which
version, and what was judged about them.

Standard facets only, so that any backend understands them. The same checkpoint always makes the same run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    base_subset_dataset,
    data_quality_assertions_dataset,
    dataset_version_dataset,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
)

from tidegate.pipeline.vertices import CheckVertex, SinkVertex, SourceVertex
from tidegate.protocol.facts.names import Target, TargetKind
from tidegate.protocol.facts.records import CheckpointRecord, Snapshot, SubtaskId, SubtaskRecord, Verdict
from tidegate.protocol.schema.ddl import columns_of
from tidegate.protocol.steps.notify import committables

#: A subset of more files is only counted: an event has a limit in every backend.
MOST_FILES = 1000


@dataclass(frozen=True, slots=True)
class Lineage:
    """What is known of one completed checkpoint. `files` are those that each source read for it, with their bytes, as
    far as the source can say; `datasets` are namespace and name of what a source or sink names itself, by operator
    id."""

    namespace: str
    version: str
    record: CheckpointRecord
    subtasks: Mapping[SubtaskId, SubtaskRecord]
    verdicts: Sequence[Verdict]
    sources: Sequence[SourceVertex]
    sinks: Sequence[SinkVertex]
    checks: Sequence[CheckVertex]
    files: Mapping[str, Mapping[str, int] | None]
    datasets: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def snapshots(self, operator_id: str) -> dict[int, Snapshot]:
        """By subtask."""
        return {
            key.subtask_index: known.snapshot for key, known in self.subtasks.items() if key.operator_id == operator_id
        }


def run_id(namespace: str, pipeline_id: str, checkpoint_id: int) -> str:
    """Of the checkpoint, whoever sends it and how often. Performs no I/O."""
    return str(uuid5(NAMESPACE_URL, f"tidegate:{namespace}/{pipeline_id}/{checkpoint_id}"))


def run_event(known: Lineage) -> RunEvent:
    """COMPLETE, at the time of the commit. Performs no I/O."""
    record = known.record
    assert record.completed_at is not None
    return RunEvent(
        eventTime=record.completed_at.isoformat(),
        producer=f"urn:tidegate:{known.version}",
        eventType=RunState.COMPLETE,
        run=Run(
            run_id(known.namespace, record.pipeline_id, record.checkpoint_id),
            {"processing_engine": processing_engine_run.ProcessingEngineRunFacet(known.version, "Tidegate")},
        ),
        job=Job(
            known.namespace,
            record.pipeline_id,
            {"jobType": job_type_job.JobTypeJobFacet("BATCH", "TIDEGATE", record.kind.value)},
        ),
        inputs=[_input(known, vertex) for vertex in known.sources],
        outputs=[*(_output(known, vertex) for vertex in known.sinks), *_judged_state(known)],
    )


def dataset_of(description: Mapping[str, Any], name: str) -> tuple[str, str]:
    """Namespace and name of a place, by OpenLineage's rules for files: `file` and the path, or scheme and authority and
    the path. A connector without a path is known by its type and its own name. Performs no I/O."""
    place = description.get("path")
    if not place:
        return f"tidegate://{description.get('type', 'unknown')}", name
    parts = urlsplit(str(place))
    if not parts.scheme:
        return "file", str(place)
    authority = parts.netloc.rpartition("@")[2]  # never a user or a password
    return f"{parts.scheme}://{authority}", parts.path.strip("/") or "/"


def _input(known: Lineage, vertex: SourceVertex) -> InputDataset:
    named = known.datasets.get(vertex.operator_id)
    namespace, name = named or dataset_of(vertex.source.describe(), vertex.name)
    fields = [
        schema_dataset.SchemaDatasetFacetFields(column, type_)
        for column, type_ in columns_of(vertex.declared_schema or "")
    ]
    facets: dict[str, Any] = {"schema": schema_dataset.SchemaDatasetFacet(fields)} if fields else {}
    return InputDataset(namespace=namespace, name=name, facets=facets, inputFacets=_read(known, vertex))


def _read(known: Lineage, vertex: SourceVertex) -> dict[str, Any]:
    """Which part of the input: files if the source names them, else the position that each split has reached."""
    files = known.files.get(vertex.name)
    if files is not None:
        counted = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            size=sum(files.values()), fileCount=len(files)
        )
        return {"inputStatistics": counted} | (
            {"subset": _subset(base_subset_dataset.LocationSubsetCondition(sorted(files)))}
            if 0 < len(files) <= MOST_FILES
            else {}
        )
    partitions = [
        base_subset_dataset.Partition(dict(snapshot.position), str(split))
        for split, snapshot in sorted(known.snapshots(vertex.operator_id).items())
        if snapshot.position is not None
    ]
    return {"subset": _subset(base_subset_dataset.PartitionSubsetCondition(partitions))} if partitions else {}


def _subset(condition: Any) -> base_subset_dataset.InputSubsetInputDatasetFacet:
    return base_subset_dataset.InputSubsetInputDatasetFacet(inputCondition=condition)


def _output(known: Lineage, vertex: SinkVertex) -> OutputDataset:
    named = known.datasets.get(vertex.operator_id)
    namespace, name = named or dataset_of(vertex.sink.describe(), vertex.name)
    staged = committables(known.subtasks, vertex.operator_id)
    written = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=sum(handle.rows for handle in staged),
        size=sum(handle.bytes for handle in staged),
        fileCount=len(staged),
    )
    checks = {check.name for check in known.checks if vertex.name in check.sinks}
    verdicts = [
        verdict
        for verdict in known.verdicts
        if verdict.target == Target(TargetKind.SINK, vertex.name)
        or (verdict.target.kind is TargetKind.CHECK and verdict.target.name in checks)
    ]
    return OutputDataset(
        namespace=namespace,
        name=name,
        facets=_facets(known, verdicts),
        outputFacets={"outputStatistics": written},
    )


def _judged_state(known: Lineage) -> Iterator[OutputDataset]:
    """State is no table of anybody's, so it appears where something was judged about it."""
    for verdict in known.verdicts:
        if verdict.target.kind is TargetKind.STATE:
            name = f"{known.record.pipeline_id}/{verdict.target.name}"
            yield OutputDataset(namespace="tidegate://state", name=name, facets=_facets(known, [verdict]))


def _facets(known: Lineage, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    version = dataset_version_dataset.DatasetVersionDatasetFacet(str(known.record.checkpoint_id))
    assertions = [_assertion(verdict, result) for verdict in verdicts for result in verdict.results]
    judged = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions=assertions)
    return {"version": version} | ({"dataQualityAssertions": judged} if assertions else {})


def _assertion(verdict: Verdict, result: Mapping[str, Any]) -> data_quality_assertions_dataset.Assertion:
    column, observed = (result.get("kwargs") or {}).get("column"), result.get("observed")
    return data_quality_assertions_dataset.Assertion(
        assertion=str(result.get("type")),
        success=result.get("success") is True,
        column=column if isinstance(column, str) else None,
        severity="error",
        name=f"{verdict.target} {verdict.suite}",
        actual=str(observed) if isinstance(observed, str | int | float) else None,
    )
