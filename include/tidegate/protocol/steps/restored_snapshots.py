"""The restore step of every checkpoint: the snapshots that its subtasks start from.

A checkpoint always starts from the whole latest completed one. No data moves: a subtask opens the runs that overlap its
key groups, also when the parallelism has changed (docs/reference/state-format.md).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from tidegate.protocol.facts.handles import layout_version
from tidegate.protocol.facts.keygroups import KeyGroupRange, covering, key_groups_of
from tidegate.protocol.facts.records import (
    CheckpointRecord,
    CompactedRun,
    HandleKind,
    OperatorPlan,
    Snapshot,
    StateHandle,
    SubtaskId,
)
from tidegate.protocol.steps.refusal import Refusal, require_none
from tidegate.protocol.steps.sink_marks import is_mark_alone
from tidegate.protocol.steps.watermarks import is_watermark_alone

#: The detail of a handle that names the operator which wrote the file, if it was renamed since.
WRITTEN_AS = "written_as"

#: By operator, its name in earlier checkpoints.
Renamed = Mapping[str, str]


def restore_snapshots(
    latest: CheckpointRecord | None,
    snapshots: Mapping[SubtaskId, Snapshot],
    operators: Sequence[OperatorPlan],
    compactions: Sequence[CompactedRun],
    allow_non_restored_state: bool,
    renamed: Renamed | None = None,
) -> dict[SubtaskId, Snapshot]:
    """Return the snapshot that each subtask of `operators` starts from. Operators unknown to `latest` start empty.

    Raises `StateSchemaError` with the refusals that `find_unrestorable` finds.
    """
    if latest is None:
        return {}
    renamed = former_names(latest, renamed)
    require_none(find_unrestorable(latest, snapshots, operators, allow_non_restored_state, renamed))
    return assign_snapshots(latest, apply_compactions(snapshots, compactions), operators, renamed)


def assign_snapshots(
    latest: CheckpointRecord,
    snapshots: Mapping[SubtaskId, Snapshot],
    operators: Sequence[OperatorPlan],
    renamed: Renamed,
) -> dict[SubtaskId, Snapshot]:
    """Assign snapshots to the subtasks, whether the restore is legal or not. With another max parallelism a subtask
    gets all runs that have keys of its own. These also have keys of others, so they must be rewritten (see `editing`).
    Performs no I/O."""
    old = {plan.operator_id: plan for plan in latest.operators}
    restored: dict[SubtaskId, Snapshot] = {}
    for plan in operators:
        former = renamed.get(plan.operator_id, plan.operator_id)
        if former in old:
            before = replace(old[former], operator_id=plan.operator_id)
            theirs = snapshots if former == plan.operator_id else _renamed(snapshots, former, plan.operator_id)
            same = _has_keys_as_before(before, plan, theirs) and before.parallelism == plan.parallelism
            restored |= _same(before, theirs) if same else _rescaled(before, plan, theirs)
    return restored


def _has_keys_as_before(before: OperatorPlan, plan: OperatorPlan, snapshots: Mapping[SubtaskId, Snapshot]) -> bool:
    """Whether the key groups are as before, or there is no keyed state: sources and sinks have none, and an operator
    may have none yet."""
    if before.max_parallelism == plan.max_parallelism:
        return True
    handles = (handle for id_ in _subtasks(before) for handle in snapshots.get(id_, Snapshot()).handles)
    return not any(handle.kind is HandleKind.RUN for handle in handles)


def kept_max_parallelism(record: CheckpointRecord, parallelism: int) -> int | None:
    """Return the max parallelism of a checkpoint; None if a pipeline of this parallelism cannot keep it. Performs no
    I/O."""
    values = {plan.max_parallelism for plan in record.operators}
    return min(values) if len(values) == 1 and parallelism <= min(values) else None


def former_names(latest: CheckpointRecord, renamed: Renamed | None) -> Renamed:
    """Return the former names that apply to the checkpoint. An operator that the checkpoint already has under its
    present name was renamed before."""
    known = {plan.operator_id for plan in latest.operators}
    return {new: old for new, old in (renamed or {}).items() if new not in known and old in known}


def _renamed(snapshots: Mapping[SubtaskId, Snapshot], former: str, operator_id: str) -> dict[SubtaskId, Snapshot]:
    """Return an operator's snapshots under its new name. Each file names the operator whose directory it lies in (see
    `own_files`)."""
    return {
        SubtaskId(operator_id, id_.subtask_index): replace(
            snapshot,
            handles=tuple(
                replace(handle, details={WRITTEN_AS: former} | dict(handle.details)) for handle in snapshot.handles
            ),
        )
        for id_, snapshot in snapshots.items()
        if id_.operator_id == former
    }


def find_unrestorable(
    latest: CheckpointRecord,
    snapshots: Mapping[SubtaskId, Snapshot],
    operators: Sequence[OperatorPlan],
    allow_non_restored_state: bool,
    renamed: Renamed,
) -> list[Refusal]:
    """Find operators whose max parallelism changed, so that their key groups would mean something else. Unless it is
    allowed, also find operators that are gone and had state or a position (protocol.md section 14). Performs no I/O."""
    refusals = [] if allow_non_restored_state else find_lost(latest, snapshots, operators, renamed)
    old = {plan.operator_id: plan for plan in latest.operators}
    for plan in operators:
        before = old.get(renamed.get(plan.operator_id, plan.operator_id))
        if before is not None and before.max_parallelism != plan.max_parallelism:
            refusals.append(_in_other_key_groups(latest.pipeline_id, before.max_parallelism, plan))
    return refusals


def _in_other_key_groups(pipeline_id: str, before: int, plan: OperatorPlan) -> Refusal:
    least = f" and parallelism to at most {before}" if plan.parallelism > before else ""
    return Refusal(
        plan.operator_id,
        f"Operator {plan.operator_id} of pipeline {pipeline_id} was checkpointed with max_parallelism {before} and is "
        f"now defined with {plan.max_parallelism}. State is kept by key groups, of which there are so many: it must be "
        "rewritten first.",
        f"To go on without that, set max_parallelism={before}{least}. To rewrite it, run `tidegate rewrite "
        f"{pipeline_id} --to URL`, which changes nothing else, and then `tidegate restore {pipeline_id} --from URL`.",
    )


def find_unmatched(
    snapshots: Mapping[SubtaskId, Snapshot], operators: Sequence[OperatorPlan], renamed: Renamed
) -> list[str]:
    """Find the operators with state or a position that no operator of the definition goes on from."""
    known = {plan.operator_id for plan in operators} | set(renamed.values())
    kept = {HandleKind.RUN, HandleKind.POSITION}
    return sorted(
        {
            subtask.operator_id
            for subtask, snapshot in snapshots.items()
            if subtask.operator_id not in known
            and (_is_placed(snapshot) or any(handle.kind in kept for handle in snapshot.handles))
        }
    )


def _is_placed(snapshot: Snapshot) -> bool:
    position = snapshot.position or {}
    return bool(position) and not is_watermark_alone(position) and not is_mark_alone(position)


def find_lost(
    latest: CheckpointRecord,
    snapshots: Mapping[SubtaskId, Snapshot],
    operators: Sequence[OperatorPlan],
    renamed: Renamed,
) -> list[Refusal]:
    """Find state and positions that no operator goes on from. Performs no I/O."""
    return [
        Refusal(
            operator_id,
            f"Checkpoint {latest.checkpoint_id} of pipeline {latest.pipeline_id} holds state or positions of "
            f"{operator_id}, which the pipeline no longer has: it was renamed or removed. Under another name an "
            "operator would start empty, and a source would read everything again.",
            "Restore the old name, give the former name with previous=…, or set "
            "CheckpointConfig(allow_non_restored_state=True) to discard them for good.",
        )
        for operator_id in find_unmatched(snapshots, operators, renamed)
    ]


def _same(plan: OperatorPlan, snapshots: Mapping[SubtaskId, Snapshot]) -> dict[SubtaskId, Snapshot]:
    return {subtask: _carried(snapshots[subtask]) for subtask in _subtasks(plan) if subtask in snapshots}


def _subtasks(plan: OperatorPlan) -> list[SubtaskId]:
    return [SubtaskId(plan.operator_id, index) for index in range(plan.parallelism)]


def _rescaled(
    before: OperatorPlan, plan: OperatorPlan, snapshots: Mapping[SubtaskId, Snapshot]
) -> dict[SubtaskId, Snapshot]:
    """Assign the snapshots after a change of the parallelism.

    Keyed state follows key-group overlap. Every split of a source gets the files of all old positions. A position
    without files stays with its split, even if the split is gone: the others go on from there. A staged file belongs to
    one old subtask and cannot be divided, so a sink stages again."""
    owned = [key_groups_of(index, before.parallelism, before.max_parallelism) for index in range(before.parallelism)]
    runs = [
        _of_kind(snapshots.get(SubtaskId(plan.operator_id, index), Snapshot()), HandleKind.RUN)
        for index in range(before.parallelism)
    ]
    read = [snapshots[id_] for id_ in _subtasks(before) if id_ in snapshots]
    positions = tuple({h.path: h for snapshot in read for h in _of_kind(snapshot, HandleKind.POSITION)}.values())
    result = {}
    for index in range(plan.parallelism):
        subtask = SubtaskId(plan.operator_id, index)
        own = key_groups_of(index, plan.parallelism, plan.max_parallelism)
        groups = covering(own, plan.max_parallelism, before.max_parallelism)
        old = snapshots.get(subtask, Snapshot())
        sharing = [(theirs, listed) for theirs, listed in zip(owned, runs, strict=True) if theirs.overlaps(groups)]
        # An operator's subtasks finish together. `finished` refuses to rescale a source of which some splits have
        # finished.
        finished = any(snapshots[id_].finished for id_ in _subtasks(before) if id_ in snapshots)
        result[subtask] = Snapshot(_views(sharing, groups) + positions, None if positions else old.position, finished)
    gone = [id_ for id_ in _subtasks(before)[plan.parallelism :] if id_ in snapshots]
    kept = [] if positions else [id_ for id_ in gone if _is_placed(snapshots[id_])]
    return result | {id_: Snapshot((), snapshots[id_].position) for id_ in kept}


def _of_kind(snapshot: Snapshot, kind: HandleKind) -> tuple[StateHandle, ...]:
    return tuple(handle for handle in snapshot.handles if handle.kind is kind)


def _views(
    old: Iterable[tuple[KeyGroupRange, tuple[StateHandle, ...]]], groups: KeyGroupRange
) -> tuple[StateHandle, ...]:
    """Return the runs of old subtasks for a new one, each restricted to the key groups that its old subtask owned.

    For those groups the old subtask's list is complete and in order. A shared file may hold rows of other groups that
    are older than those their owner has merged since, whatever the files' ages are. So no two lists overlap, and any
    order that keeps the order of each list is right. This one joins the parts of a file that several lists share.
    """
    lists = [[view for run in runs if (view := _narrowed(run, owned, groups))] for owned, runs in old]
    result: list[StateHandle] = []
    for level in zip_longest(*lists):
        together: list[StateHandle] = []
        for view in level:
            if view is not None and together and _continues(together[-1], view):
                together[-1] = _with_groups(view, _groups(together[-1]).first, _groups(view).last)
            elif view is not None:
                together.append(view)
        result += together
    return tuple(result)


def _narrowed(run: StateHandle, *ranges: KeyGroupRange) -> StateHandle | None:
    """Restrict the run to the key groups that all ranges have in common; None if there are none."""
    first = max(_groups(run).first, *(groups.first for groups in ranges))
    last = min(_groups(run).last, *(groups.last for groups in ranges))
    return _with_groups(run, first, last) if first <= last else None


def _continues(view: StateHandle, following: StateHandle) -> bool:
    return view.path == following.path and _groups(view).last + 1 == _groups(following).first


def _with_groups(run: StateHandle, first: int, last: int) -> StateHandle:
    return replace(run, key_groups=KeyGroupRange(first, last))


def _groups(run: StateHandle) -> KeyGroupRange:
    assert run.key_groups is not None, f"{run.path} is a run without key groups"
    return run.key_groups


def _carried(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without rows on their way to a downstream operator. They were consumed before the barrier and
    are no part of the state."""
    kept = tuple(handle for handle in snapshot.handles if handle.kind is not HandleKind.EXCHANGE)
    return replace(snapshot, handles=kept)


def apply_compactions(
    snapshots: Mapping[SubtaskId, Snapshot], compactions: Sequence[CompactedRun]
) -> dict[SubtaskId, Snapshot]:
    """Put each compacted run in the place of the consecutive runs that it replaces, if all of them are still there with
    the same key groups. A run made for a rescaled subtask does not fit the old one of the same index."""
    result = dict(snapshots)
    for compaction in compactions:
        merged = _compacted(result.get(compaction.subtask), compaction)
        if merged is not None:
            result[compaction.subtask] = merged
    return result


def _compacted(snapshot: Snapshot | None, compaction: CompactedRun) -> Snapshot | None:
    """Put the compacted run into the snapshot; None if it does not fit."""
    if snapshot is None:
        return None
    handles, count = snapshot.handles, len(compaction.replaces)
    views = tuple(handle.view for handle in handles)
    for at in range(len(views)):
        if views[at : at + count] == compaction.replaces:
            return replace(snapshot, handles=(*handles[:at], compaction.handle, *handles[at + count :]))
    return None


def choose_obsolete(snapshots: Mapping[SubtaskId, Snapshot], compactions: Sequence[CompactedRun]) -> list[CompactedRun]:
    """Choose compactions that can no longer be applied to the latest checkpoint: already used, or overtaken."""
    return [run for run in compactions if _compacted(snapshots.get(run.subtask), run) is None]


def choose_newer(snapshots: Mapping[SubtaskId, Snapshot], compactions: Sequence[CompactedRun]) -> list[CompactedRun]:
    """Choose compactions with newer columns than the state has. They come from a definition that a restore leaves
    behind, and the definition that goes on may lack those columns."""
    newest: dict[str, int] = {}
    for id_, snapshot in snapshots.items():
        versions = (layout_version(handle) for handle in snapshot.handles)
        newest[id_.operator_id] = max([newest.get(id_.operator_id, 0), *versions])
    return [run for run in compactions if layout_version(run.handle) > newest.get(run.subtask.operator_id, 0)]
