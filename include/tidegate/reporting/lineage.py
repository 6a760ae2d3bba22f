"""The OpenLineage event of a completed checkpoint: the files or offsets read, the tables written and their versions,
and the verdicts.

It uses standard facets only, so that any backend understands it. The same checkpoint always has the same run id.
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

#: Above this number, files are only counted: every backend limits the size of an event.
MOST_FILES = 1000


@dataclass(frozen=True, slots=True)
class Lineage:
    """The facts about one completed checkpoint.

    `files` are the files that each source read for it, with their bytes, as far as the source records them. `datasets`
    are namespace and name of a source or sink that names its own dataset, by operator id.
    """

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
        """Return an operator's snapshots by subtask."""
        return {
            key.subtask_index: record.snapshot
            for key, record in self.subtasks.items()
            if key.operator_id == operator_id
        }


def run_id(namespace: str, pipeline_id: str, checkpoint_id: int) -> str:
    """Return the run id of a checkpoint, the same for every sender and attempt. Performs no I/O."""
    return str(uuid5(NAMESPACE_URL, f"tidegate:{namespace}/{pipeline_id}/{checkpoint_id}"))


def run_event(lineage: Lineage) -> RunEvent:
    """Return the COMPLETE event, at the time of the commit. Performs no I/O."""
    record = lineage.record
    assert record.completed_at is not None
    return RunEvent(
        eventTime=record.completed_at.isoformat(),
        producer=f"urn:tidegate:{lineage.version}",
        eventType=RunState.COMPLETE,
        run=Run(
            run_id(lineage.namespace, record.pipeline_id, record.checkpoint_id),
            {"processing_engine": processing_engine_run.ProcessingEngineRunFacet(lineage.version, "Tidegate")},
        ),
        job=Job(
            lineage.namespace,
            record.pipeline_id,
            {"jobType": job_type_job.JobTypeJobFacet("BATCH", "TIDEGATE", record.kind.value)},
        ),
        inputs=[_input(lineage, vertex) for vertex in lineage.sources],
        outputs=[*(_output(lineage, vertex) for vertex in lineage.sinks), *_validated_state(lineage)],
    )


def dataset_of(description: Mapping[str, Any], name: str) -> tuple[str, str]:
    """Return namespace and name of a place, by OpenLineage's rules for files: `file` and the path, or scheme and
    authority and the path.

    A connector without a path is identified by its type and its own name. Performs no I/O.
    """
    place = description.get("path")
    if not place:
        return f"tidegate://{description.get('type', 'unknown')}", name
    parts = urlsplit(str(place))
    if not parts.scheme:
        return "file", str(place)
    authority = parts.netloc.rpartition("@")[2]  # without user and password
    return f"{parts.scheme}://{authority}", parts.path.strip("/") or "/"


def _input(lineage: Lineage, vertex: SourceVertex) -> InputDataset:
    own_dataset = lineage.datasets.get(vertex.operator_id)
    namespace, name = own_dataset or dataset_of(vertex.source.describe(), vertex.name)
    fields = [
        schema_dataset.SchemaDatasetFacetFields(column, type_)
        for column, type_ in columns_of(vertex.declared_schema or "")
    ]
    facets: dict[str, Any] = {"schema": schema_dataset.SchemaDatasetFacet(fields)} if fields else {}
    return InputDataset(namespace=namespace, name=name, facets=facets, inputFacets=_read(lineage, vertex))


def _read(lineage: Lineage, vertex: SourceVertex) -> dict[str, Any]:
    """Return the part of the input that was read: files if the source names them, else the position of each split."""
    files = lineage.files.get(vertex.name)
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
        for split, snapshot in sorted(lineage.snapshots(vertex.operator_id).items())
        if snapshot.position is not None
    ]
    return {"subset": _subset(base_subset_dataset.PartitionSubsetCondition(partitions))} if partitions else {}


def _subset(condition: Any) -> base_subset_dataset.InputSubsetInputDatasetFacet:
    return base_subset_dataset.InputSubsetInputDatasetFacet(inputCondition=condition)


def _output(lineage: Lineage, vertex: SinkVertex) -> OutputDataset:
    own_dataset = lineage.datasets.get(vertex.operator_id)
    namespace, name = own_dataset or dataset_of(vertex.sink.describe(), vertex.name)
    staged = committables(lineage.subtasks, vertex.operator_id)
    written = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=sum(handle.rows for handle in staged),
        size=sum(handle.bytes for handle in staged),
        fileCount=len(staged),
    )
    checks = {check.name for check in lineage.checks if vertex.name in check.sinks}
    verdicts = [
        verdict
        for verdict in lineage.verdicts
        if verdict.target == Target(TargetKind.SINK, vertex.name)
        or (verdict.target.kind is TargetKind.CHECK and verdict.target.name in checks)
    ]
    return OutputDataset(
        namespace=namespace,
        name=name,
        facets=_facets(lineage, verdicts),
        outputFacets={"outputStatistics": written},
    )


def _validated_state(lineage: Lineage) -> Iterator[OutputDataset]:
    """Yield a dataset for each verdict on state. State is not a table, so it appears only if it was validated."""
    for verdict in lineage.verdicts:
        if verdict.target.kind is TargetKind.STATE:
            name = f"{lineage.record.pipeline_id}/{verdict.target.name}"
            yield OutputDataset(namespace="tidegate://state", name=name, facets=_facets(lineage, [verdict]))


def _facets(lineage: Lineage, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    version = dataset_version_dataset.DatasetVersionDatasetFacet(str(lineage.record.checkpoint_id))
    assertions = [_assertion(verdict, result) for verdict in verdicts for result in verdict.results]
    quality = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions=assertions)
    return {"version": version} | ({"dataQualityAssertions": quality} if assertions else {})


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
