"""The actions that a page offers now, and their texts. Pure. Whether an action is legal is decided when it is
requested.
"""

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
    """Return the offers of a pipeline's page. `running` are the checkpoints in progress, `startable` the DAGs that do
    the work that needs the pipeline's code.
    """
    status, offers = overview.pipeline.status, []
    for one in running:
        offers += offers_of_checkpoint(overview.pipeline.pipeline_id, one)
    if _region_lives(overview, now):
        offers += _requests()
    elif status in _TAKING:
        offers += _runs(overview.pipeline.pipeline_id, startable)
    offers += restores_of_pipeline(overview, startable)
    if status in _SUSPENDABLE:
        sentence = "No checkpoints are taken until it is resumed. A checkpoint in progress is aborted."
        offers.append(Offer("suspend", (Button("Suspend", "suspend"),), "Suspend …", sentence))
    if status in _RESUMABLE:
        offers.append(Offer("resume", (Button("Resume", "resume"),)))
    if status is not PipelineStatus.CANCELLED:
        sentence = (
            f"This cancels pipeline {overview.pipeline.pipeline_id} for good. Its tables stay as they are. Its "
            "checkpoints are kept or deleted as set by the option retention."
        )
        offers.append(Offer("cancel", (Button("Cancel this pipeline", "cancel"),), "Cancel …", sentence, final=True))
    return offers


def offers_of_checkpoint(pipeline_id: str, checkpoint: Checkpoint, startable: Startable | None = None) -> list[Offer]:
    """Return the offers of a checkpoint; with `startable`, those of its own page."""
    id_, kept = checkpoint.id, checkpoint.status == Status.COMPLETED and not checkpoint.subsumed
    below = f"checkpoints/{id_}"
    offers = []
    if checkpoint.standing.held:
        sentence = f"If approved, checkpoint {id_} completes although a verdict failed. If rejected, it is aborted."
        buttons = (Button("Approve", f"{below}/approve"), Button("Reject", f"{below}/reject"))
        offers.append(
            Offer(f"decide-{id_}", buttons, f"Decide about checkpoint {id_}", sentence, (_COMMENT,), first=True)
        )
    elif checkpoint.status == Status.IN_PROGRESS:
        sentence = "Committed data is untouched. The next checkpoint takes the same data."
        button = Button(f"Abort checkpoint {id_}", f"{below}/abort")
        offers.append(Offer(f"abort-{id_}", (button,), f"Abort checkpoint {id_} …", sentence))
    elif checkpoint.is_savepoint and kept:
        offers += _of_savepoint(checkpoint, below)
    if startable is not None and kept:
        offers.insert(0, restore_to(pipeline_id, checkpoint, startable))
    return offers


def _of_savepoint(checkpoint: Checkpoint, below: str) -> list[Offer]:
    label = _label(checkpoint.name or "", checkpoint.note or "")
    sentence = "Its files are deleted, except those that other checkpoints need. This cannot be undone."
    dispose = Button("Dispose of this savepoint", f"{below}/dispose")
    return [
        Offer(
            "rename", (Button("Rename", f"{below}/rename"),), "Rename …", "Fields left empty stay as they are.", label
        ),
        Offer("dispose", (dispose,), "Dispose …", sentence, final=True),
    ]


_CHECKPOINT = (Button("Take a checkpoint", "requests", "CHECKPOINT"),)
_SAVEPOINT = (Button("Take a savepoint", "requests", "SAVEPOINT"), Button("Stop with it", "requests", "STOP"))
_STOPPED = "“Stop with it” stops the pipeline, which can be resumed."
_DRAIN = (Button("Drain and stop", "drain"),)
_DRAINED = "The pipeline stops with a savepoint, and its inputs count as ended, for good."


def _requests() -> list[Offer]:
    return [
        Offer("checkpoint", _CHECKPOINT),
        Offer("savepoint", _SAVEPOINT, "Savepoint or stop …", _STOPPED, _label()),
        Offer("drain", _DRAIN, "Drain …", _DRAINED, _label(), final=True),
    ]


def _runs(pipeline_id: str, startable: Startable) -> list[Offer]:
    """Return the offers of a scheduled pipeline, whose DAG runs take checkpoints."""
    if not startable.takes:
        sentence = (
            f"This needs the pipeline’s code. Run `tidegate checkpoint {pipeline_id}`, `tidegate savepoint "
            f"{pipeline_id}` or `tidegate stop {pipeline_id}` where it is."
        )
        return [Offer("checkpoint", (), "Take a checkpoint …", sentence)]
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
