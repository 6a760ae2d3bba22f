"""Which actions a page offers now, and what they say. Pure. Whether one is legal is decided when it is asked for."""

from collections.abc import Iterable
from datetime import datetime

from tidegate.protocol.continuous.regions import REGION_LEASE
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.savepoints import LONGEST_NAME, LONGEST_NOTE
from tidegate.protocol.steps.hold import LONGEST_COMMENT
from tidegate.reading.checkpoint_answers import Checkpoint
from tidegate.reading.pipeline_answers import Overview
from tidegate.ui.dag_runs import Startable
from tidegate.ui.forms import Button, Field, Offer
from tidegate.ui.restore_offers import restore_to, restores_of_pipeline

_COMMENT = Field("comment", "Comment", LONGEST_COMMENT, long=True)
_TAKING = (PipelineStatus.CREATED, PipelineStatus.RUNNING)
_SUSPENDABLE = (PipelineStatus.CREATED, PipelineStatus.RUNNING, PipelineStatus.STOPPING)
_RESUMABLE = (PipelineStatus.SUSPENDED, PipelineStatus.FAILED)


def offers_of_pipeline(
    overview: Overview, running: Iterable[Checkpoint], now: datetime, startable: Startable
) -> list[Offer]:
    """`running` are the checkpoints in progress, `startable` the DAGs that do what takes the pipeline's code."""
    status, offers = overview.pipeline.status, []
    for one in running:
        offers += offers_of_checkpoint(overview.pipeline.pipeline_id, one)
    if _region_lives(overview, now):
        offers += _requests()
    elif status in _TAKING:
        offers += _runs(overview.pipeline.pipeline_id, startable)
    offers += restores_of_pipeline(overview, startable)
    if status in _SUSPENDABLE:
        said = "No checkpoints until somebody resumes it. What is in progress is aborted."
        offers.append(Offer("suspend", (Button("Suspend", "suspend"),), "Suspend …", said))
    if status in _RESUMABLE:
        offers.append(Offer("resume", (Button("Resume", "resume"),)))
    if status is not PipelineStatus.CANCELLED:
        said = (
            f"This ends pipeline {overview.pipeline.pipeline_id} for ever. Its tables stay as they are. Its "
            "checkpoints are kept or deleted as the option retention says."
        )
        offers.append(Offer("cancel", (Button("Cancel this pipeline", "cancel"),), "Cancel …", said, final=True))
    return offers


def offers_of_checkpoint(pipeline_id: str, checkpoint: Checkpoint, startable: Startable | None = None) -> list[Offer]:
    """With `startable` those of its own page."""
    id_, kept = checkpoint.id, checkpoint.status == Status.COMPLETED and not checkpoint.subsumed
    below = f"checkpoints/{id_}"
    offers = []
    if checkpoint.standing.held:
        said = f"Approved, checkpoint {id_} completes although a verdict failed. Rejected, it is aborted."
        buttons = (Button("Approve", f"{below}/approve"), Button("Reject", f"{below}/reject"))
        offers.append(Offer(f"decide-{id_}", buttons, f"Decide about checkpoint {id_}", said, (_COMMENT,), first=True))
    elif checkpoint.status == Status.IN_PROGRESS:
        said = "Committed data is untouched. The next checkpoint takes the same data."
        button = Button(f"Abort checkpoint {id_}", f"{below}/abort")
        offers.append(Offer(f"abort-{id_}", (button,), f"Abort checkpoint {id_} …", said))
    elif checkpoint.is_savepoint and kept:
        offers += _of_savepoint(checkpoint, below)
    if startable is not None and kept:
        offers.insert(0, restore_to(pipeline_id, checkpoint, startable))
    return offers


def _of_savepoint(checkpoint: Checkpoint, below: str) -> list[Offer]:
    label = _label(checkpoint.name or "", checkpoint.note or "")
    said = "What no other checkpoint needs of its files is deleted. This cannot be taken back."
    dispose = Button("Dispose of this savepoint", f"{below}/dispose")
    return [
        Offer("rename", (Button("Rename", f"{below}/rename"),), "Rename …", "What is left empty stays.", label),
        Offer("dispose", (dispose,), "Dispose …", said, final=True),
    ]


_CHECKPOINT = (Button("Take a checkpoint", "requests", "CHECKPOINT"),)
_SAVEPOINT = (Button("Take a savepoint", "requests", "SAVEPOINT"), Button("Stop with it", "requests", "STOP"))
_STOPPED = "Stopped, the pipeline ends with the savepoint, and can be resumed."
_DRAIN = (Button("Drain and stop", "drain"),)
_DRAINED = "The pipeline ends with a savepoint, and its inputs count as ended, for good."


def _requests() -> list[Offer]:
    return [
        Offer("checkpoint", _CHECKPOINT),
        Offer("savepoint", _SAVEPOINT, "Savepoint or stop …", _STOPPED, _label()),
        Offer("drain", _DRAIN, "Drain …", _DRAINED, _label(), final=True),
    ]


def _runs(pipeline_id: str, startable: Startable) -> list[Offer]:
    """Of a scheduled pipeline: a run of its DAG takes them."""
    if not startable.takes:
        said = (
            f"It takes the pipeline’s code: `tidegate checkpoint {pipeline_id}`, `tidegate savepoint {pipeline_id}` or "
            f"`tidegate stop {pipeline_id}` where that is."
        )
        return [Offer("checkpoint", (), "Take a checkpoint …", said)]
    allowed = tuple(dag for dag in startable.takes if dag not in startable.denied)
    denied = None if allowed else startable.takes[0]
    choice = (Field("dag_id", "DAG", 0, choices=allowed),) if len(allowed) > 1 else ()
    dag = f"A run of DAG {allowed[0]} takes it." if len(allowed) == 1 else "A run of the DAG takes it."
    summary, labels = "Take a checkpoint …" if choice else "", (*_label(), *choice)
    return [
        Offer("checkpoint", _CHECKPOINT, summary, dag if choice else "", choice, denied=denied),
        Offer("savepoint", _SAVEPOINT, "Savepoint or stop …", f"{dag} {_STOPPED}", labels, denied=denied),
        Offer("drain", _DRAIN, "Drain …", f"{dag} {_DRAINED}", labels, final=True, denied=denied),
    ]


def _label(name: str = "", note: str = "") -> tuple[Field, ...]:
    return Field("name", "Name", LONGEST_NAME, name), Field("note", "Note", LONGEST_NOTE, note, long=True)


def _region_lives(overview: Overview, now: datetime) -> bool:
    seen_at = overview.region_seen_at
    return overview.region_ended_at is None and seen_at is not None and now - seen_at <= REGION_LEASE
