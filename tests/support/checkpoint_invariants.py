"""The eight invariants of a pipeline's checkpoints, which hold after every step of whatever machine."""

from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant
from worlds import (
    ManualClock,
    MemorySink,
    MemoryStorage,
    MortalStore,
)

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.lifecycle import COMMITTED, TRANSITIONS, Stage, Status
from tidegate.protocol.facts.paths import with_markers
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRecord,
    Decision,
    HandleKind,
    Snapshot,
    SubtaskId,
)


def reachable(stage: Stage) -> set[Stage]:
    found, frontier = {stage}, [stage]
    while frontier:
        for successor in TRANSITIONS[frontier.pop()] - found:
            found.add(successor)
            frontier.append(successor)
    return found


class CheckpointInvariants(RuleBasedStateMachine):
    """What a machine must hold ready to be looked at: the ports of its pipeline, and what it saw."""

    name: str
    store: CheckpointStore
    clock: ManualClock
    storage: MemoryStorage
    sink: MemorySink
    mortals: list[MortalStore]
    coordinators: list[CheckpointCoordinator]
    untrue: list[Any]  # what listeners were notified of too early
    stages: dict[int, Stage]
    acknowledged: dict[tuple[int, SubtaskId], Snapshot]

    def history(self) -> list[CheckpointRecord]:
        return self.store.history(self.name, 1000)

    @invariant()
    def no_checkpoint_leaves_the_table_of_transitions(self) -> None:
        for record in self.history():
            stage = (record.status, record.phase)
            seen = self.stages.setdefault(record.checkpoint_id, stage)
            assert stage in reachable(seen), f"checkpoint {record.checkpoint_id}: {seen} -> {stage}"
            self.stages[record.checkpoint_id] = stage

    @invariant()
    def completed_implies_acknowledged_and_validated_for_the_same_handles(self) -> None:
        for record in self.history():
            subtasks = self.store.subtasks(self.name, record.checkpoint_id)
            for subtask, known in subtasks.items():
                if known.acknowledged_at is not None:
                    first = self.acknowledged.setdefault((record.checkpoint_id, subtask), known.snapshot)
                    assert known.snapshot == first, "an acknowledged snapshot changed"
            if record.status in COMMITTED:
                assert len(subtasks) == record.num_subtasks == record.num_acknowledged
                assert all(known.acknowledged_at is not None for known in subtasks.values())
                verdicts = self.store.verdicts(self.name, record.checkpoint_id)
                assert [verdict.success for verdict in verdicts] == [record.decision is not Decision.APPROVED]

    @invariant()
    def a_suspended_pipeline_has_nothing_in_progress(self) -> None:
        known = self.store.pipeline(self.name)
        if known is not None and known.status is PipelineStatus.SUSPENDED:
            assert all(record.status is not Status.IN_PROGRESS for record in self.history())

    @invariant()
    def listeners_are_notified_of_what_is_committed(self) -> None:
        assert not self.untrue

    @invariant()
    def a_pipeline_that_stops_has_nothing_but_its_last_savepoint_and_one_that_finished_has_notified_its_sinks(
        self,
    ) -> None:
        known, history = self.store.pipeline(self.name), self.history()
        going = [record for record in history if record.status is Status.IN_PROGRESS]
        if known is not None and known.status is PipelineStatus.STOPPING:
            assert all(record.kind is CheckpointKind.SYNC_SAVEPOINT for record in going)
        if known is not None and known.status is PipelineStatus.FINISHED:
            assert not going
            assert all(record.notified_at is not None for record in history if record.status in COMMITTED)

    @invariant()
    def a_request_completes_at_most_once(self) -> None:
        requests = [record.request_id for record in self.history() if record.status in COMMITTED]
        assert len(requests) == len(set(requests))

    @invariant()
    def every_completed_checkpoint_continues_the_one_before(self) -> None:
        """Each ran exactly one step from its predecessor's state: nothing lost, nothing doubled."""
        committed = [record for record in reversed(self.history()) if record.status in COMMITTED]
        last: dict[SubtaskId, int] = {}
        for record in committed:
            for subtask, known in self.store.subtasks(self.name, record.checkpoint_id).items():
                assert known.snapshot.position == {"steps": last.get(subtask, 0) + 1}
                last[subtask] = known.snapshot.position["steps"]

    @invariant()
    def nothing_a_retained_checkpoint_refers_to_is_gone(self) -> None:
        for record in self.history():
            if record.status is not Status.COMPLETED:
                continue
            assert record.metadata_path in self.storage.files
            for known in self.store.subtasks(self.name, record.checkpoint_id).values():
                for handle in known.snapshot.handles:
                    if handle.kind is HandleKind.RUN:
                        assert handle.path in self.storage.files
                    elif record.notified_at is None:
                        visible = handle.path in self.sink.visible.get(record.checkpoint_id, ())
                        assert visible or handle.path in self.sink.staged

    @invariant()
    def only_committed_rows_are_visible_and_they_are_those_acknowledged(self) -> None:
        for checkpoint_id, paths in self.sink.visible.items():
            record = self.store.checkpoint(self.name, checkpoint_id)
            assert record is not None
            assert record.status in COMMITTED
            staged = [
                handle.path
                for (owner, subtask), snapshot in sorted(self.acknowledged.items(), key=lambda item: item[0])
                if owner == checkpoint_id and subtask.operator_id == "out-sink"
                for handle in snapshot.handles
            ]
            assert list(paths) == staged

    def teardown(self) -> None:
        """When everybody has calmed down, what is on storage is what is referred to."""
        if not hasattr(self, "coordinators"):
            return
        for mortal in self.mortals:
            mortal.plan = None
        coordinator = self.coordinators[0]
        for record in self.history():
            coordinator.abort(record.checkpoint_id, FailureReason.TASK_FAILURE, "the end")
        completed = [record for record in self.history() if record.status is Status.COMPLETED]
        if completed:
            coordinator.notify(completed[0].checkpoint_id)
            coordinator.notify(completed[0].checkpoint_id)
        self.clock.advance(7200)
        coordinator.clean()
        expected = set()
        for record in completed:
            expected.update(with_markers([record.metadata_path]))
            for known in self.store.subtasks(self.name, record.checkpoint_id).values():
                expected |= {handle.path for handle in known.snapshot.handles if handle.kind is HandleKind.RUN}
        with self.store.transaction(self.name) as tx:
            expected |= {compaction.handle.path for compaction in tx.compactions()}
        assert set(self.storage.files) == expected
        assert not self.sink.staged
