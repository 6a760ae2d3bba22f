"""Checkpoints of a pipeline that has finished in part (protocol.md section 13).

A source split has finished when it says so, an operator or sink when all its inputs have. In later checkpoints it is
neither asked nor notified: it counts as acknowledged from the start, with the snapshot it finished with. Sinks that
keep what each checkpoint showed are notified nevertheless.
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
    """Which subtasks count as acknowledged from the start, and for which the checkpoint waits."""

    finished: Mapping[SubtaskId, Snapshot]
    wait: Sequence[SubtaskId]

    def acknowledgements(self) -> list[Acknowledgement]:
        """What counts from the start. Attempt 0 says that the subtask was not asked."""
        return [Acknowledgement(id_, 0, snapshot, _NOTHING_DONE) for id_, snapshot in self.finished.items()]


def plan_checkpoint(
    subtasks: Sequence[SubtaskId], restored: Mapping[SubtaskId, Snapshot], showing_state: Set[str]
) -> CheckpointPlan:
    """The plan of the next checkpoint, `restored` being what its subtasks start from.

    `showing_state` are the sinks that have what a state has. They are asked even after they have finished, because
    where they write may have changed; that costs nothing if it has not. Other staged files were committed with their
    checkpoint and are not carried over. Performs no I/O.
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
    """Why no checkpoint can be triggered now; None if one can. Performs no I/O."""
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
    """The operators whose subtasks have all finished. Performs no I/O."""
    return frozenset(
        plan.operator_id
        for plan in operators
        if all(
            snapshots.get(SubtaskId(plan.operator_id, index), Snapshot()).finished for index in range(plan.parallelism)
        )
    )


def choose_triggered(waited_for: Sequence[str], finished: Set[str], upstreams: Upstreams) -> list[str]:
    """The operators in `waited_for` that are asked directly, because no upstream operator runs that would send a
    barrier. Sources are among them. Performs no I/O."""
    return [id_ for id_ in waited_for if set(upstreams.get(id_, ())) <= finished]


def choose_notified(subtasks: Mapping[SubtaskId, SubtaskRecord], keeping: Collection[str]) -> set[str]:
    """The operators that took part in a checkpoint. Those that finished earlier are not notified, apart from sinks that
    keep, for each checkpoint, what they showed. Performs no I/O."""
    return {id_.operator_id for id_, known in subtasks.items() if known.attempt > 0 or id_.operator_id in keeping}


def require_legal_restore(
    latest: CheckpointRecord,
    operators: Sequence[OperatorPlan],
    restored: Mapping[SubtaskId, Snapshot],
    upstreams: Upstreams,
    renamed: Renamed | None = None,
) -> None:
    """Raises `StateSchemaError` for what `find_illegal` finds. Performs no I/O."""
    require_none(find_illegal(latest, operators, restored, upstreams, former_names(latest, renamed)))


def find_illegal(
    latest: CheckpointRecord,
    operators: Sequence[OperatorPlan],
    restored: Mapping[SubtaskId, Snapshot],
    upstreams: Upstreams,
    renamed: Renamed,
) -> list[Refusal]:
    """A finished operator may read only from finished ones: a changed definition may not send it rows again. A source
    of which splits have finished keeps their number. Performs no I/O."""
    finished = finished_operators(operators, restored)
    before = {plan.operator_id: plan for plan in latest.operators}
    found = []
    for plan in operators:
        ids = [SubtaskId(plan.operator_id, index) for index in range(plan.parallelism)]
        if not any(restored.get(id_, Snapshot()).finished for id_ in ids):
            continue
        what = (
            f"{plan.operator_id} of pipeline {latest.pipeline_id} had finished with checkpoint {latest.checkpoint_id}"
        )
        old = before[renamed.get(plan.operator_id, plan.operator_id)]
        if running := sorted(set(upstreams.get(plan.operator_id, ())) - finished):
            found.append(
                Refusal(
                    plan.operator_id,
                    f"{what}, but now reads {', '.join(running)}, which has not: it would receive rows after its end.",
                    "Restore its former inputs, or let a new operator with another name read the new ones.",
                )
            )
        if not upstreams.get(plan.operator_id) and plan.parallelism != old.parallelism:
            found.append(
                Refusal(
                    plan.operator_id,
                    f"Splits of the source {what}, when it had {old.parallelism} splits. Now it has "
                    f"{plan.parallelism}, so it is unknown what is still to be read.",
                    "Set the number of splits back.",
                )
            )
    return found
