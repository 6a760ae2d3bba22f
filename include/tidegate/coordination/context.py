"""The objects that all work on one pipeline shares."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import Graph
from tidegate.ports import CheckpointStorage, CheckpointStore, Clock, Participant, Prefetch, StoreTransaction


@dataclass(frozen=True, slots=True)
class PipelineContext:
    """A pipeline, identified by its name. User actions need no definition of it."""

    pipeline_id: str
    store: CheckpointStore
    storage: CheckpointStorage
    clock: Clock

    def transaction(
        self, prefetch: Prefetch | None = None, participants: Sequence[Participant] = ()
    ) -> AbstractContextManager[StoreTransaction]:
        """See `CheckpointStore.transaction`."""
        return self.store.transaction(self.pipeline_id, prefetch, participants)


@dataclass(frozen=True, slots=True)
class DefinedContext(PipelineContext):
    """A pipeline's context, with its definition."""

    graph: Graph

    @property
    def pipeline(self) -> Pipeline:
        return self.graph.pipeline

    @property
    def config(self) -> CheckpointConfig:
        return self.graph.pipeline.checkpoints


def context_of(graph: Graph, store: CheckpointStore, storage: CheckpointStorage, clock: Clock) -> DefinedContext:
    return DefinedContext(graph.pipeline.name, store, storage, clock, graph)
