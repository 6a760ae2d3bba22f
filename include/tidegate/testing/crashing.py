"""A pipeline whose processes die at chosen effects, one process after the other. Only its ports keep data."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import SinkVertex
from tidegate.ports import CheckpointStore, Validator
from tidegate.settings import Settings
from tidegate.state.storage import ArrowCheckpointStorage
from tidegate.testing.effects import Crash, Effects, Mortal, MortalTransactions, ShiftedClock, mortal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.region import SparkRegion

#: The effects of a sink. Reading staged rows changes nothing.
SINK_EFFECTS = (
    "commit",
    "commit_group",
    "delete_withdrawn",
    "discard",
    "forget",
    "mark",
    "prepare",
    "prepare_rewind",
    "remove_outdated",
    "rewind",
    "rewind_group",
)


class MortalPipeline:
    """A pipeline whose transactions, storage writes and sinks are effects."""

    def __init__(
        self,
        pipeline: Pipeline,
        store: CheckpointStore,
        session: "SparkSession",
        settings: Settings,
        validator: Callable[[Graph, "Callable[[], SparkRegion]"], Validator],
        only: str = "",
    ) -> None:
        from tidegate.spark.region import SparkRegion

        self.effects = Effects(only)
        self.died_at = ""
        self.clock = ShiftedClock()
        storage: Any = Mortal(ArrowCheckpointStorage(settings.storage), self.effects, "write", "delete")
        with_mortal_sinks(pipeline, self.effects)
        transactions: Any = MortalTransactions(store, self.effects)
        self.coordinator = CheckpointCoordinator(pipeline, transactions, storage, self.clock)
        self.region = SparkRegion(self.coordinator.graph, session, storage, SystemClock(), settings)
        self._validator = validator(self.coordinator.graph, lambda: self.region)

    def run(self, request: str) -> int:
        """Run a checkpoint from its beginning to its end, in one process. The same request leads to the same
        checkpoint.
        """
        outcome: Any = self.coordinator.trigger(request)
        checkpoint_id: int = outcome.checkpoint_id
        self.coordinator.snapshot(checkpoint_id, self.region)
        self.coordinator.validate(checkpoint_id, self._validator)
        self.coordinator.finalize(checkpoint_id)
        self.coordinator.notify(checkpoint_id)
        return checkpoint_id

    def dies(self, request: str, at: int, before: bool) -> bool:
        """Run a checkpoint in a process that dies before or after an effect, then in one that does not. Return whether
        the first one reached the effect.
        """
        self.effects.die(at, before)
        try:
            self.run(request)
        except Crash:
            self.died_at = self.effects.log[-1]
            self.effects.die(None)
            self.run(request)
            return True
        self.effects.die(None)
        return False


def with_mortal_sinks(pipeline: Pipeline, effects: Effects) -> None:
    """Replace every sink of a pipeline by one that dies at its effects."""
    pipeline.vertices[:] = [
        replace(vertex, sink=mortal(vertex.sink, effects, *SINK_EFFECTS)) if isinstance(vertex, SinkVertex) else vertex
        for vertex in pipeline.vertices
    ]


def sweep(
    pipeline: MortalPipeline,
    deliver: Callable[[int], object],
    check: Callable[[str], object],
    every: int = 1,
) -> tuple[int, int]:
    """Die before and after every `every`th effect of a checkpoint and run it again, until a run has met no crash in
    either way: then every effect was met.

    `deliver` makes data arrive for the run of a number, and `check` is given a description of the crash. Return the
    number of checkpoints after the first, and the number that died.
    """
    deliver(0)
    pipeline.run("warm")
    check("After the first checkpoint")
    at, runs, survived, crashes = 0, 0, 0, 0
    while survived < 2:
        survived = 0
        for before in (True, False):
            runs += 1
            deliver(runs)
            died = pipeline.dies(f"crash-{at}-{before}", at, before)
            survived += not died
            crashes += died
            where = f"{'before' if before else 'after'} effect {at}, {pipeline.died_at}," if died else "at no effect"
            check(f"Killed {where} of checkpoint {runs + 1}, and repeated")
        at += every
    return runs, crashes
