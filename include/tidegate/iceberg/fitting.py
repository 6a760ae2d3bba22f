"""Checks of an existing table: whether rows fit, and which rows a restore would withdraw."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.table.metadata import TableMetadata

from tidegate.iceberg.columns import Numbering
from tidegate.iceberg.data_files import known
from tidegate.iceberg.evolution import Evolution
from tidegate.iceberg.files import read_metadata
from tidegate.iceberg.names import TAG, tagged
from tidegate.iceberg.partitions import PartitionBy
from tidegate.ports import Branch, Withdrawn


def problems(location: str, rows: pa.Schema, fields: Sequence[PartitionBy], renamed: Mapping[str, str]) -> list[str]:
    """Return a phrase for everything that keeps rows out of a table."""
    metadata = read_metadata(location)
    found = evolution(metadata, rows, renamed).problems
    if metadata.format_version > 2:
        found.append(f"the table has format version {metadata.format_version}, and only 1 and 2 can be written")
    spec, schema = metadata.spec(), metadata.schema()
    there = [(schema.find_column_name(each.source_id), str(each.transform)) for each in spec.fields]
    if fields and [(each.column, each.transform) for each in fields] != there:
        fields_there = ", ".join(f"{transform} of {column}" for column, transform in there) or "nothing"
        found.append(
            f"the table is partitioned by {fields_there}: write the same in partition_by=, leave it out, or change the "
            "table"
        )
    nested = [column for column, _ in there if "." in (column or "")]
    return found + [f"the table is partitioned by {column!r}, which is inside another column" for column in nested]


def evolution(metadata: TableMetadata, rows: pa.Schema, renamed: Mapping[str, str]) -> Evolution:
    """Return the changes that the columns of rows make to those of a table."""
    table = known(metadata)
    numbered = Numbering(table.last, renamed).schema(rows, table.columns)
    found = Evolution(renamed, table.last)
    found.schema(metadata.schema(), pyarrow_to_schema(numbered))
    return found


def shown_outside(location: str, branch: Branch, replaced: bool) -> list[Withdrawn]:
    """Return the visible rows of checkpoints outside the branch. For a replaced table, those of the newest one only."""
    metadata = read_metadata(location)
    tags = {id_: metadata.refs[tag].snapshot_id for id_, tag in tagged(metadata.refs, TAG).items()}
    ours = {snapshot_id for id_, snapshot_id in tags.items() if id_ in branch}
    others = {snapshot_id: id_ for id_, snapshot_id in sorted(tags.items(), reverse=True) if id_ not in branch}
    found = [_withdrawn(metadata, id_, each, replaced) for each, id_ in others.items() if each not in ours]
    return sorted(found, key=lambda each: each.checkpoint_id)[-1 if replaced else 0 :]


def _withdrawn(metadata: TableMetadata, checkpoint_id: int, snapshot_id: int, replaced: bool) -> Withdrawn:
    snapshot = metadata.snapshot_by_id(snapshot_id)
    summary = snapshot.summary if snapshot is not None else None
    numbers = ("total-data-files", "total-files-size", "total-records") if replaced else (
        "added-data-files", "added-files-size", "added-records",
    )  # fmt: skip
    files, size, rows = (int(summary[name] or 0) if summary is not None else 0 for name in numbers)
    return Withdrawn(checkpoint_id, files, size, rows)
