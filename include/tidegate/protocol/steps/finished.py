"""Checkpoints of a pipeline that has finished in part (protocol.md section 13).

A source split has finished when its snapshot reports it, an operator or sink when all its inputs have. In later
checkpoints it is neither triggered nor notified. It counts as acknowledged from the start, with the snapshot it
finished with. Sinks that keep the rows that each checkpoint showed are notified nevertheless.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    CheckpointRecord,
    HandleKind,
    OperatorPlan,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskMetrics,
    SubtaskRecord,
)
from tidegate.protocol.steps.refusal import Refusal, require_none
from tidegate.protocol.steps.restored_snapshots import Renamed, former_names
from tidegate.protocol.steps.trigger import Dropped

#: By operator, the operators whose rows it reads; sources read none. Every channel goes from all subtasks to all.
Upstreams = Mapping[str, Sequence[str]]

_NOTHING_DONE = SubtaskMetrics(0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The subtasks that count as acknowledged from the start, and those that the checkpoint waits for."""

    finished: Mapping[SubtaskId, Snapshot]
    wait: Sequence[SubtaskId]

    def acknowledgements(self) -> list[Acknowledgement]:
        """Return the acknowledgements that count from the start. Attempt 0 means that the subtask was not triggered."""
        return [Acknowledgement(id_, 0, snapshot, _NOTHING_DONE) for id_, snapshot in self.finished.items()]


def plan_checkpoint(
    subtasks: Sequence[SubtaskId], restored: Mapping[SubtaskId, Snapshot], showing_state: Set[str]
) -> CheckpointPlan:
    """Plan the next checkpoint, whose subtasks start from the `restored` snapshots.

    `showing_state` are the sinks that show the rows of a state. They are triggered even after they have finished,
    because their place may have changed; without a change that costs nothing. Other staged files were committed with
    their checkpoint and are not carried over. Performs no I/O.
    """
    finished = {
        id_: replace(restored[id_], handles=_kept(restored[id_]))
        for id_ in subtasks
        if id_ in restored and restored[id_].finished and id_.operator_id not in showing_state
    }
    return CheckpointPlan(finished, [id_ for id_ in subtasks if id_ not in finished])


def _kept(snapshot: Snapshot) -> tuple[StateHandle, ...]:
    return tuple(handle for handle in snapshot.handles if handle.kind is not HandleKind.STAGED)


def decide_trigger(
    latest: CheckpointRecord | None, plan: CheckpointPlan, checkpoints_after_tasks_finish: bool
) -> Dropped | None:
    """Return the reason why no checkpoint can be triggered now; None if one can. Performs no I/O."""
    if latest is None or not latest.num_finished:
        return None
    if not checkpoints_after_tasks_finish:
        return Dropped(
            FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING,
            f"{latest.num_finished} of {latest.num_subtasks} subtasks of pipeline {latest.pipeline_id} had finished "
            f"with checkpoint {latest.checkpoint_id}, and CheckpointConfig(checkpoints_after_tasks_finish=False) "
            "allows no checkpoint after that. Nothing was changed. Remove the option to let the other subtasks "
            "continue.",
        )
    if not plan.wait:
        return Dropped(
            FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING,
            f"Everything that is left of pipeline {latest.pipeline_id} had finished with checkpoint "
            f"{latest.checkpoint_id}, so no subtask is left to take a checkpoint. Nothing was changed.",
        )
    return None


def finished_operators(operators: Sequence[OperatorPlan], snapshots: Mapping[SubtaskId, Snapshot]) -> frozenset[str]:
    """Return the operators whose subtasks have all finished. Performs no I/O."""
    return frozenset(
        plan.operator_id
        for plan in operators
        if all(
            snapshots.get(SubtaskId(plan.operator_id, index), Snapshot()).finished for index in range(plan.parallelism)
        )
    )


def choose_triggered(waited_for: Sequence[str], finished: Set[str], upstreams: Upstreams) -> list[str]:
    """Choose the operators in `waited_for` that are triggered directly, because no upstream operator runs that would
    send a barrier. Sources are among them. Performs no I/O."""
    return [id_ for id_ in waited_for if set(upstreams.get(id_, ())) <= finished]


def choose_notified(subtasks: Mapping[SubtaskId, SubtaskRecord], keeping: Collection[str]) -> set[str]:
    """Choose the operators that took part in a checkpoint. Those that finished earlier are not notified, apart from
    sinks that keep the rows that each checkpoint showed. Performs no I/O."""
    return {id_.operator_id for id_, record in subtasks.items() if record.attempt > 0 or id_.operator_id in keeping}


def require_legal_restore(
    latest: CheckpointRecord,
    operators: Sequence[OperatorPlan],
    restored: Mapping[SubtaskId, Snapshot],
    upstreams: Upstreams,
    renamed: Renamed | None = None,
) -> None:
    """Raise `StateSchemaError` with the refusals that `find_illegal` finds. Performs no I/O."""
    require_none(find_illegal(latest, operators, restored, upstreams, former_names(latest, renamed)))


def find_illegal(
    latest: CheckpointRecord,
    operators: Sequence[OperatorPlan],
    restored: Mapping[SubtaskId, Snapshot],
    upstreams: Upstreams,
    renamed: Renamed,
) -> list[Refusal]:
    """Find changes that finished operators forbid. They may read only from finished ones, because a changed definition
    must not send them rows again. A source with finished splits keeps its number of splits. Performs no I/O."""
    finished = finished_operators(operators, restored)
    before = {plan.operator_id: plan for plan in latest.operators}
    refusals = []
    for plan in operators:
        ids = [SubtaskId(plan.operator_id, index) for index in range(plan.parallelism)]
        if not any(restored.get(id_, Snapshot()).finished for id_ in ids):
            continue
        what = (
            f"{plan.operator_id} of pipeline {latest.pipeline_id} had finished with checkpoint {latest.checkpoint_id}"
        )
        old = before[renamed.get(plan.operator_id, plan.operator_id)]
        if running := sorted(set(upstreams.get(plan.operator_id, ())) - finished):
            refusals.append(
                Refusal(
                    plan.operator_id,
                    f"{what}, but now reads {', '.join(running)}, which has not: it would receive rows after its end.",
                    "Restore its former inputs, or let a new operator with another name read the new ones.",
                )
            )
        if not upstreams.get(plan.operator_id) and plan.parallelism != old.parallelism:
            refusals.append(
                Refusal(
                    plan.operator_id,
                    f"Splits of the source {what}, when it had {old.parallelism} splits. Now it has "
                    f"{plan.parallelism}, so the unread rest is unknown.",
                    "Set the number of splits back.",
                )
            )
    return refusals
