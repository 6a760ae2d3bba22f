"""Which gestures a page offers now, and what they say. Pure. Whether one is legal is decided when it is asked for."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tidegate.protocol.hold import LONGEST_COMMENT
from tidegate.protocol.lifecycle import Status
from tidegate.protocol.pipelines import PipelineStatus
from tidegate.protocol.records import CheckpointKind, CheckpointRecord
from tidegate.protocol.regions import REGION_LEASE
from tidegate.protocol.savepoints import LONGEST_NAME, LONGEST_NOTE
from tidegate.reading.pipeline_answers import Overview


@dataclass(frozen=True, slots=True)
class Field:
    """Of a form. One that is `long` has lines. What is empty is not sent."""

    name: str
    label: str
    longest: int
    value: str = ""
    long: bool = False


@dataclass(frozen=True, slots=True)
class Button:
    """`path` is below the pipeline's address, `kind` what is asked for there, if there are several things."""

    label: str
    path: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """`summary` is what opens it; without one it is a button alone. `final`: it takes the right to delete. `first`: it
    waits for somebody, and is open."""

    key: str
    buttons: tuple[Button, ...]
    summary: str = ""
    sentence: str = ""
    fields: tuple[Field, ...] = ()
    final: bool = False
    first: bool = False


_COMMENT = Field("comment", "Comment", LONGEST_COMMENT, long=True)
_SUSPENDABLE = (PipelineStatus.CREATED, PipelineStatus.RUNNING, PipelineStatus.STOPPING)
_RESUMABLE = (PipelineStatus.SUSPENDED, PipelineStatus.FAILED)


def offers_of_pipeline(
    overview: Overview, running: Iterable[tuple[CheckpointRecord, bool]], now: datetime
) -> list[Offer]:
    """`running` are the checkpoints in progress, and whether each is held."""
    status, offers = overview.pipeline.status, []
    for record, held in running:
        offers += offers_of_checkpoint(record, held)
    if _region_lives(overview, now):
        offers += _requests()
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


def offers_of_checkpoint(record: CheckpointRecord, held: bool) -> list[Offer]:
    id_ = record.checkpoint_id
    below = f"checkpoints/{id_}"
    offers = []
    if held:
        said = f"Approved, checkpoint {id_} completes although a verdict failed. Rejected, it is aborted."
        buttons = (Button("Approve", f"{below}/approve"), Button("Reject", f"{below}/reject"))
        offers.append(Offer(f"decide-{id_}", buttons, f"Decide about checkpoint {id_}", said, (_COMMENT,), first=True))
    elif record.status is Status.IN_PROGRESS:
        said = "Committed data is untouched. The next checkpoint takes the same data."
        button = Button(f"Abort checkpoint {id_}", f"{below}/abort")
        offers.append(Offer(f"abort-{id_}", (button,), f"Abort checkpoint {id_} …", said))
    elif record.kind is not CheckpointKind.CHECKPOINT and record.status is Status.COMPLETED:
        offers += _of_savepoint(record, below)
    return offers


def _of_savepoint(record: CheckpointRecord, below: str) -> list[Offer]:
    label = _label(record.name or "", record.note or "")
    said = "What no other checkpoint needs of its files is deleted. This cannot be taken back."
    dispose = Button("Dispose of this savepoint", f"{below}/dispose")
    return [
        Offer("rename", (Button("Rename", f"{below}/rename"),), "Rename …", "What is left empty stays.", label),
        Offer("dispose", (dispose,), "Dispose …", said, final=True),
    ]


def _requests() -> list[Offer]:
    several = (Button("Take a savepoint", "requests", "SAVEPOINT"), Button("Stop with it", "requests", "STOP"))
    stopped = "Stopped, the pipeline ends with the savepoint, and can be resumed."
    drained = "The pipeline ends with a savepoint, and its inputs count as ended, for good."
    drain = (Button("Drain and stop", "drain"),)
    return [
        Offer("checkpoint", (Button("Take a checkpoint", "requests", "CHECKPOINT"),)),
        Offer("savepoint", several, "Savepoint or stop …", stopped, _label()),
        Offer("drain", drain, "Drain …", drained, _label(), final=True),
    ]


def _label(name: str = "", note: str = "") -> tuple[Field, ...]:
    return Field("name", "Name", LONGEST_NAME, name), Field("note", "Note", LONGEST_NOTE, note, long=True)


def _region_lives(overview: Overview, now: datetime) -> bool:
    seen_at = overview.region_seen_at
    return overview.region_ended_at is None and seen_at is not None and now - seen_at <= REGION_LEASE
