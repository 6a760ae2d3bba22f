"""Whether a pipeline has failed when, and only when, more checkpoints failed
in a row than it tolerates (protocol.md section 8)."""

from typing import TYPE_CHECKING

from simulator.scheduler import require
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind

if TYPE_CHECKING:
    from memory_state import PipelineState

#: What section 8 says counts, and a failed validation, which counts by default.
COUNTS = {
    "CHECKPOINT_ASYNC_EXCEPTION",
    "CHECKPOINT_DECLINED",
    "CHECKPOINT_EXPIRED",
    "FINALIZE_CHECKPOINT_FAILURE",
    "HOLD_EXPIRED",
    "VALIDATION_FAILED",
}


def check_failures(before: "PipelineState", after: "PipelineState", tolerable: int | None) -> None:
    """After a commit in which some checkpoint failed. Raises `Violation`."""
    failed = {id_ for id_, record in after.checkpoints.items() if record.status is Status.FAILED}
    fresh = {id_ for id_ in failed if before.checkpoints[id_].status is not Status.FAILED}
    assert before.pipeline is not None
    assert after.pipeline is not None
    if not fresh or before.pipeline.status is not PipelineStatus.RUNNING:
        return
    success = max((id_ for id_, record in after.checkpoints.items() if record.completed_at), default=0)
    in_a_row = [after.checkpoints[id_] for id_ in failed if id_ > max(success, before.pipeline.forgiven_until)]
    counted = [
        record.checkpoint_id
        for record in in_a_row
        if record.kind is CheckpointKind.CHECKPOINT and record.failure_reason and record.failure_reason.name in COUNTS
    ]
    too_many = tolerable is not None and len(counted) > tolerable
    is_failed = after.pipeline.status is PipelineStatus.FAILED
    require(
        too_many == is_failed,
        f"{counted} failed, {tolerable} are tolerated, and the pipeline is {after.pipeline.status}",
    )
