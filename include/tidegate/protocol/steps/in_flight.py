"""Checks of an unaligned checkpoint's in-flight data against a changed definition.

It lies in the position of each operator's first subtask, by channel: `NAME`, or `NAME/SPLIT` of a source.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tidegate.protocol.facts.records import OperatorPlan, Snapshot, SubtaskId
from tidegate.protocol.steps.refusal import Refusal

#: The detail of a file of emitted rows that holds the columns its operator declared.
OUTPUT = "output"

_SAVEPOINT = "and take a savepoint, which holds no in-flight data; then change the pipeline."


def without_channel(pipeline_id: str, channel: str, operator_id: str) -> Refusal:
    """Refuse in-flight data of a channel that its operator does not read any more."""
    return Refusal(
        operator_id,
        f"The latest checkpoint of pipeline {pipeline_id} holds in-flight data from {channel} to {operator_id}, which "
        "no longer reads that input: it would be lost.",
        f"Put the input back {_SAVEPOINT}",
    )


def find_stranded(
    pipeline_id: str,
    restored: Mapping[SubtaskId, Snapshot],
    operators: Sequence[OperatorPlan],
    upstreams: Mapping[str, Sequence[str]],
    changed: Collection[str],
    outputs: Mapping[str, str],
) -> list[Refusal]:
    """Find in-flight data whose channel is gone, or whose columns its operator no longer has: the operator's state has
    `changed`, or it emits other rows, as `outputs` shows. Subtasks start from `restored`. Performs no I/O."""
    plans = {plan.operator_id: plan for plan in operators}
    found = []
    for plan in operators:
        for channel, files in _channels(restored.get(SubtaskId(plan.operator_id, 0), Snapshot())):
            origin, _, split = channel.partition("/")
            reads = origin in upstreams.get(plan.operator_id, ())
            if not reads or (split and int(split) >= plans[origin].parallelism):
                found.append(without_channel(pipeline_id, channel, plan.operator_id))
            elif files is not None and _is_in_other_columns(files, origin in changed, outputs.get(origin)):
                found.append(_in_other_columns(pipeline_id, channel, plan.operator_id))
    return found


def _is_in_other_columns(files: Sequence[Mapping[str, Any]], is_changed: bool, output: str | None) -> bool:
    """Whether the files have other columns than the operator. Emitted rows do not depend on the state's columns."""
    written = {file["details"].get(OUTPUT) for file in files}
    return bool(written - {output}) or (output is None and is_changed)


def _in_other_columns(pipeline_id: str, channel: str, operator_id: str) -> Refusal:
    return Refusal(
        operator_id,
        f"The latest checkpoint of pipeline {pipeline_id} holds in-flight data from {channel} to {operator_id}, in "
        f"other columns than {channel} has now.",
        f"Put the definition of {channel} back {_SAVEPOINT}",
    )


def _channels(snapshot: Snapshot) -> Iterator[tuple[str, Sequence[Mapping[str, Any]] | None]]:
    """Return each channel with data, and the files of those that come from an operator."""
    for channel, data in (snapshot.position or {}).get("in_flight", ()):
        yield channel, data.get("handles")
