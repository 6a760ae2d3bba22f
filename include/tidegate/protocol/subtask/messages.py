"""The events that reach a subtask about checkpoints, and the effects that follow: the vocabulary of `steps`."""

from dataclasses import dataclass

from tidegate.protocol.barriers.messages import BarrierOptions
from tidegate.protocol.facts.reasons import FailureReason


@dataclass(frozen=True, slots=True)
class Begin:
    """A snapshot is due: the gate says so or, to a source, the coordinator. `last`: a savepoint to stop with."""

    checkpoint_id: int
    options: BarrierOptions
    last: bool = False


@dataclass(frozen=True, slots=True)
class StepDone:
    """The step of the latest answer (`Prepare`, `BroadcastBarrier` or `SnapshotOperators`) was carried out."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class CaptureEnded:
    """All in-flight data of an unaligned checkpoint has been captured."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class WriteEnded:
    """The snapshot is on storage."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class WriteFailed:
    """The snapshot could not be written; `reason` if the error has one."""

    checkpoint_id: int
    reason: FailureReason | None = None


@dataclass(frozen=True, slots=True)
class AlignmentAborted:
    """The gate aborted the checkpoint, perhaps before the subtask was asked for it."""

    checkpoint_id: int
    reason: FailureReason


@dataclass(frozen=True, slots=True)
class NotifyComplete:
    """The coordinator says that the checkpoint completed. `subsumed` is the newest checkpoint that it pushed out, if
    any."""

    checkpoint_id: int
    subsumed: int = -1


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """The coordinator says that the checkpoint was aborted. `latest_completed` makes up for a lost completion."""

    checkpoint_id: int
    latest_completed: int = -1


SubtaskEvent = (
    Begin | StepDone | CaptureEnded | WriteEnded | WriteFailed | AlignmentAborted | NotifyComplete | NotifyAborted
)


@dataclass(frozen=True, slots=True)
class Prepare:
    """Step 1: operators flush what should go before the barrier."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class BroadcastBarrier:
    """Step 2: to every channel downstream, before the snapshot; ahead of queued output if unaligned."""

    checkpoint_id: int
    options: BarrierOptions


@dataclass(frozen=True, slots=True)
class SnapshotOperators:
    """Step 4: the synchronous part, from the last operator to the first; then hand the rest over for writing."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Acknowledge:
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Decline:
    checkpoint_id: int
    reason: FailureReason


@dataclass(frozen=True, slots=True)
class BroadcastCancel:
    """Tell downstream not to wait for a barrier from here."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class AbortCapture:
    """Drop the data that was captured in flight for the checkpoint."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class DiscardSnapshot:
    """Stop writing it, discard what was written, and report metrics only, as far as they are known."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TellComplete:
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TellSubsumed:
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TellAborted:
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The savepoint to stop with is complete: the subtask ends successfully."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Fail:
    """The subtask fails: it was to stop with a savepoint that was aborted, and cannot go on without it."""

    checkpoint_id: int


Effect = (
    Prepare
    | BroadcastBarrier
    | SnapshotOperators
    | Acknowledge
    | Decline
    | BroadcastCancel
    | AbortCapture
    | DiscardSnapshot
    | TellComplete
    | TellSubsumed
    | TellAborted
    | Finish
    | Fail
)
