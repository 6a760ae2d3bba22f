"""The vocabulary of `steps`: the events of a subtask's checkpoints, and the effects that follow from them."""

from dataclasses import dataclass

from tidegate.protocol.barriers.messages import BarrierOptions
from tidegate.protocol.facts.reasons import FailureReason


@dataclass(frozen=True, slots=True)
class Begin:
    """A snapshot is due, by the gate or, for a source, by the coordinator. `last`: it is a savepoint to stop with."""

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
    """The snapshot could not be written. `reason` is that of the error, if it has one."""

    checkpoint_id: int
    reason: FailureReason | None = None


@dataclass(frozen=True, slots=True)
class AlignmentAborted:
    """The gate aborted the checkpoint, perhaps before the subtask began it."""

    checkpoint_id: int
    reason: FailureReason


@dataclass(frozen=True, slots=True)
class NotifyComplete:
    """The coordinator reports that the checkpoint completed. `subsumed` is the newest checkpoint that it pushed out, if
    any."""

    checkpoint_id: int
    subsumed: int = -1


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """The coordinator reports that the checkpoint was aborted. `latest_completed` replaces a lost completion."""

    checkpoint_id: int
    latest_completed: int = -1


SubtaskEvent = (
    Begin | StepDone | CaptureEnded | WriteEnded | WriteFailed | AlignmentAborted | NotifyComplete | NotifyAborted
)


@dataclass(frozen=True, slots=True)
class Prepare:
    """Step 1: operators flush rows that belong before the barrier."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class BroadcastBarrier:
    """Step 2: send the barrier to every channel downstream, before the snapshot, and ahead of queued output if it is
    unaligned."""

    checkpoint_id: int
    options: BarrierOptions


@dataclass(frozen=True, slots=True)
class SnapshotOperators:
    """Step 4: take the synchronous part, from the last operator to the first. Then hand the rest over for writing."""

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
    """Notify downstream that no barrier follows from here."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class AbortCapture:
    """Drop the in-flight data that was captured for the checkpoint."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class DiscardSnapshot:
    """Stop writing the snapshot, discard its files, and report the metrics that are known, but nothing else."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class ForwardComplete:
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class ForwardSubsumed:
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class ForwardAborted:
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The savepoint to stop with is complete: the subtask ends successfully."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Fail:
    """The subtask fails: the savepoint that it was to stop with was aborted, and it cannot go on without it."""

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
    | ForwardComplete
    | ForwardSubsumed
    | ForwardAborted
    | Finish
    | Fail
)
