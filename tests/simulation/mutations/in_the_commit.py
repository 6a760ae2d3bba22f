"""Planted mistakes around sinks that take part in the transaction of a checkpoint or a restore, and what they take
over."""

from contextlib import contextmanager
from dataclasses import replace

from memory_store import MemoryCheckpointStore
from simulator.in_the_commit import CommittedSink, Statements
from simulator.running_ports import NAME

from mutations.planting import mutation
from tidegate.coordination.cleaning import deletion_queue as deleting
from tidegate.coordination.context import PipelineContext
from tidegate.coordination.steps.finalize import _IsNotToCompleteError
from tidegate.coordination.steps.notify import Delivery
from tidegate.coordination.steps.participating import Participants, Participating


@mutation("statements of sinks run after the commit", (PipelineContext, "transaction"))
def _(original):
    @contextmanager
    def transaction(self, prefetch=None, participants=()):
        with original(self, prefetch) as tx:
            yield tx
        if participants:
            with original(self, None, participants):
                pass

    return transaction


@mutation("statements of sinks run after the commit of a continuous run", (PipelineContext, "transaction"))
def _(original):
    @contextmanager
    def transaction(self, prefetch=None, participants=()):
        is_late = self.pipeline_id == NAME and participants
        with original(self, prefetch, () if is_late else participants) as tx:
            yield tx
        if is_late:
            with original(self, None, participants):
                pass

    return transaction


@mutation("participants of a region that was overtaken run", (PipelineContext, "transaction"))
def _(original):
    @contextmanager
    def transaction(self, prefetch=None, participants=()):
        error = None
        with original(self, prefetch, participants) as tx:
            try:
                yield tx
            except _IsNotToCompleteError as said:
                if self.pipeline_id != NAME:
                    raise
                error = said
        if error is not None:
            raise error

    return transaction


@mutation("what participants did is kept although the checkpoint is not to complete", (PipelineContext, "transaction"))
def _(original):
    @contextmanager
    def transaction(self, prefetch=None, participants=()):
        error = None
        with original(self, prefetch, participants) as tx:
            try:
                yield tx
            except _IsNotToCompleteError as said:
                error = said
        if error is not None:
            raise error

    return transaction


@mutation("a participant takes part twice", (Participants, "prepare"))
def _(original):
    def prepare(self, checkpoint_id, subtasks):
        found = original(self, checkpoint_id, subtasks)
        return replace(found, participants=[*found.participants, *found.participants])

    return prepare


@mutation("a sink shows a checkpoint after the commit without looking whether it has it", (CommittedSink, "_after"))
def _(original):
    def after(self, checkpoint_id, staged):
        return Statements(self, checkpoint_id, staged, self._load(staged), self._add if staged else None)

    return after


@mutation("sinks are notified of what they showed in the commit", (Delivery, "_commit"))
def _(original):
    return lambda self, record, *rest: original(self, record.moved(committed_sinks=()), *rest)


@mutation("tables in the commit go back only in the second phase of a restore", (Participants, "prepare_rewind"))
def _(original):
    return lambda self, checkpoint_id, branch, subtasks: Participating()


@mutation("the pipeline is locked while sinks run their statements", (MemoryCheckpointStore, "transaction"))
def _(original):
    @contextmanager
    def transaction(self, pipeline_id, prefetch=None, participants=()):
        with self._locked(pipeline_id) as tx, self.tables.changed_by(participants):
            yield tx

    return transaction


@mutation("rows that were loaded are not counted in the transaction", (Statements, "_count"))
def _(original):
    return lambda self, parts: None


@mutation("staged files that a sink has taken over are discarded", (deleting, "find_unreferenced"))
def _(original):
    return lambda sink, paths: list(paths)
