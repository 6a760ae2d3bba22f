"""In-flight data of an unaligned checkpoint under a changed definition: whether it can be put back where it was.

It lies in the position of each operator's first subtask, by channel: `NAME`, or `NAME/SPLIT` of a source.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tidegate.protocol.facts.records import OperatorPlan, Snapshot, SubtaskId
from tidegate.protocol.steps.refusal import Refusal

#: The detail of a file of emitted rows that says which columns its operator declared.
OUTPUT = "output"

_SAVEPOINT = "and take a savepoint, which holds no in-flight data; then change the pipeline."


def without_channel(pipeline_id: str, channel: str, operator_id: str) -> Refusal:
    """The operator does not read from there any more."""
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
    """In-flight data of channels that are gone, or that has other columns than its operator has now: one whose state
    has `changed`, or that emits, as `outputs` says, other rows. `restored` is what subtasks start from. Performs no
    I/O."""
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
    """Rows that are emitted do not depend on the state's columns."""
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
    """Each channel with data, and its files if that was sent by an operator."""
    for channel, data in (snapshot.position or {}).get("in_flight", ()):
        yield channel, data.get("handles")
