"""The choice of a pipeline's barrier handler, and of the options of its barriers.

Both follow from the same few settings, so that a handler never gets a barrier that it does not understand.
"""

from dataclasses import dataclass

from tidegate.protocol.barriers.aligned import AlignedBarrierHandler
from tidegate.protocol.barriers.messages import ALIGNED, UNALIGNED, AlignmentType, BarrierHandler, BarrierOptions
from tidegate.protocol.barriers.tracker import BarrierTracker
from tidegate.protocol.barriers.unaligned import UnalignedBarrierHandler
from tidegate.protocol.facts.errors import PipelineDefinitionError


@dataclass(frozen=True, slots=True)
class GateOptions:
    """A pipeline's settings for its barriers.

    `aligned_timeout` (milliseconds) applies if checkpoints may be unaligned: they begin aligned and become unaligned
    after that time. With 0 or None they are unaligned from the beginning. `alignment_limit` (bytes, None for no limit)
    bounds the data that may queue on blocked channels. `checkpoints_after_tasks_finish` is the switch of protocol.md
    section 13.
    """

    exactly_once: bool = True
    unaligned: bool = False
    aligned_timeout: int | None = 0
    alignment_limit: int | None = None
    checkpoints_after_tasks_finish: bool = True

    def __post_init__(self) -> None:
        # The messages name the options of `CheckpointConfig`, where a pipeline sets them.
        if self.unaligned and not self.exactly_once:
            raise PipelineDefinitionError(
                "CheckpointConfig.unaligned needs mode EXACTLY_ONCE: AT_LEAST_ONCE has no alignment to do without. "
                "Change one of the two."
            )
        if self.aligned_timeout is not None and self.aligned_timeout < 0:
            raise PipelineDefinitionError("CheckpointConfig.aligned_checkpoint_timeout must not be negative.")
        if self.alignment_limit is None:
            return
        if self.alignment_limit <= 0:
            raise PipelineDefinitionError(
                f"CheckpointConfig.alignment_limit must be a positive number of bytes, or None: {self.alignment_limit}."
            )
        if self.unaligned or not self.exactly_once:
            raise PipelineDefinitionError(
                "CheckpointConfig.alignment_limit bounds the data that queues behind aligned barriers of mode "
                "EXACTLY_ONCE. With unaligned or AT_LEAST_ONCE nothing queues for long: leave the limit out."
            )


def make_handler(options: GateOptions, num_channels: int) -> BarrierHandler:
    """Make the handler of protocol.md section 11 for these options. Performs no I/O."""
    finished = options.checkpoints_after_tasks_finish
    if not options.exactly_once:
        return BarrierTracker(num_channels, finished)
    if options.unaligned:
        return UnalignedBarrierHandler(num_channels, finished)
    return AlignedBarrierHandler(num_channels, finished, options.alignment_limit)


def choose_barrier_options(options: GateOptions, savepoint: bool) -> BarrierOptions:
    """Choose by the table "Options sent" of protocol.md section 4, row by row. Performs no I/O."""
    if not options.exactly_once:
        return BarrierOptions(AlignmentType.NONE)
    if savepoint or not options.unaligned:
        return ALIGNED
    if not options.aligned_timeout:
        return UNALIGNED
    return BarrierOptions(AlignmentType.ALIGNED, options.aligned_timeout)
