"""The hold: a checkpoint waits for manual approval if every rule that its data broke has `on_failure="hold"`.

While it waits it is `HELD`: in progress, so that nothing newer starts, and not expired by its own deadline. It is
approved or rejected once, by its id. The first decision stands. After the hold's deadline it cannot be approved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.protocol.facts.errors import CheckpointHeldError, IllegalRequestError, NotHeldError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import CheckpointRecord, Decided, Decision, Verdict
from tidegate.protocol.steps.verdicts import is_met
from tidegate.protocol.text.sentences import reassured

LONGEST_NAME = 200  # characters of the name of the person who decides
LONGEST_COMMENT = 2000

#: By target, how long a failure of each expectation of its suite may wait for manual approval; None if it aborts.
HoldRules = Mapping[Target, Sequence[timedelta | None]]


def decide_hold(targets: Sequence[Target], verdicts: Sequence[Verdict], rules: HoldRules) -> timedelta | None:
    """Decide how long a checkpoint that these verdicts reject may wait for manual approval; None if it must be aborted
    at once.

    It may wait if every problem is a failed expectation that holds. A validation that failed or is missing reveals
    nothing about the data, so it leaves no basis for a decision. The shortest of the waits applies. Performs no I/O.
    """
    by_target = {verdict.target: verdict for verdict in verdicts}
    waits: list[timedelta] = []
    for target in targets:
        verdict = by_target.get(target)
        if verdict is None or verdict.success is None:
            return None
        if not verdict.success:
            allowed = _waits(verdict, rules.get(target, ()))
            if not allowed:
                return None
            waits += allowed
    return min(waits, default=None)


def _waits(verdict: Verdict, rules: Sequence[timedelta | None]) -> list[timedelta]:
    """Return the waits of the expectations that failed; empty if one of them aborts, or if it is unknown which ones
    failed."""
    if len(verdict.results) != len(rules):
        return []
    failed = [rule for result, rule in zip(verdict.results, rules, strict=True) if not is_met(result)]
    waits = [rule for rule in failed if rule is not None]
    return waits if len(waits) == len(failed) else []


def is_held(record: CheckpointRecord) -> bool:
    """Whether the checkpoint waits for manual approval. Performs no I/O."""
    return (record.status, record.phase) == (Status.IN_PROGRESS, Phase.HELD)


def is_approved(record: CheckpointRecord) -> bool:
    """Whether the checkpoint was approved manually, and has not completed yet. Performs no I/O."""
    return record.status is Status.IN_PROGRESS and record.decision is Decision.APPROVED


def is_with_people(record: CheckpointRecord) -> bool:
    """Whether the checkpoint waits for manual approval or has received it. Then no other event may end it. Performs no
    I/O."""
    return is_held(record) or is_approved(record)


def held_error(record: CheckpointRecord) -> CheckpointHeldError:
    """Return the error of a step that cannot go on before the manual decision. Performs no I/O."""
    name, id_ = record.pipeline_id, record.checkpoint_id
    return CheckpointHeldError(
        f"Checkpoint {id_} of pipeline {name} is held until {record.ends_at:%Y-%m-%d %H:%M:%S} UTC, and waits for "
        f"manual approval. {record.held_message} Inspect it with `tidegate checkpoint {name} {id_}`, then decide with "
        f"`tidegate approve {name} {id_}` or `tidegate reject {name} {id_}`. Once it is approved, `tidegate run "
        f"{name}` completes it, unless a DAG run or a continuous run does."
    )


def expired_message(record: CheckpointRecord) -> str:
    """Return the reason why a held checkpoint is aborted at the end of its hold. Performs no I/O."""
    assert record.held_at is not None
    return (
        f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id} was held at "
        f"{record.held_at:%Y-%m-%d %H:%M:%S} UTC, and was not approved by {record.ends_at:%Y-%m-%d %H:%M:%S} UTC. "
        + reassured(record.held_message or "")
    )


def rejected_message(record: CheckpointRecord, decided: Decided) -> str:
    """Return the reason why a rejected checkpoint is aborted. Performs no I/O."""
    return (
        f"{decided.by} rejected checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id}"
        + (f": {decided.comment}" if decided.comment else "")
        + f" ({record.held_message}) "
        + reassured("")
    )


def decided_sentence(record: CheckpointRecord) -> str:
    """Return a sentence on the decision about a checkpoint and on the next step. Performs no I/O."""
    assert record.decided is not None
    if record.decided.decision is Decision.REJECTED:
        then = "Nothing of it became visible; the next checkpoint takes the same data."
    elif record.status is Status.IN_PROGRESS:
        then = f"`tidegate run {record.pipeline_id}` completes it, unless a DAG run or a continuous run does."
    else:
        then = f"It is {record.status}."
    return f"{_name(record)} was {_what_was_decided(record)} {then}"


@dataclass(frozen=True, slots=True)
class AlreadyDecided:
    """An equal decision was recorded before. Nothing changes."""

    record: CheckpointRecord


@dataclass(frozen=True, slots=True)
class Decide:
    """Record the decision. `deadline` is that of the checkpoint from then on."""

    decided: Decided
    deadline: datetime


def require_legal_decision(decided: Decided) -> None:
    """Check the name and the comment of the person who decides. Raises `IllegalRequestError`. Performs no I/O."""
    by, comment = decided.by, decided.comment
    if not by.isprintable() or not 1 <= len(by.strip()) == len(by) <= LONGEST_NAME:
        raise IllegalRequestError(
            f"{by[:100]!a} cannot name who decides: a name has 1 to {LONGEST_NAME} printable characters, with no space "
            "around them. Nothing was changed."
        )
    if comment is not None and len(comment) > LONGEST_COMMENT:
        raise IllegalRequestError(
            f"The comment has {len(comment)} characters, but may have {LONGEST_COMMENT}. Nothing was changed."
        )


def decide_decision(record: CheckpointRecord, decided: Decided) -> Decide | AlreadyDecided:
    """Decide whether to record a manual decision about a checkpoint.

    An approved checkpoint has until the end of its hold, and at least its timeout again, to complete. If its deadline
    was corrected because a clock was wrong (`clocks`), the timeout is the time that was left when all subtasks had
    acknowledged. Raises `NotHeldError` if the checkpoint was decided otherwise, is not held, or was held for too long.
    Performs no I/O.
    """
    if record.decision is decided.decision:
        return AlreadyDecided(record)
    if record.decision is not None:
        raise NotHeldError(f"{_name(record)} was {_what_was_decided(record)} That stands, and nothing was changed.")
    if not is_held(record):
        raise NotHeldError(f"{_name(record)} does not wait for a decision: {_where(record)} Nothing was changed.")
    if decided.at >= record.ends_at:
        raise NotHeldError(
            f"{_name(record)} was held until {record.ends_at:%Y-%m-%d %H:%M:%S} UTC, and that has passed. Nothing was "
            "changed. The next process that reads it aborts it, and the next checkpoint takes the same data."
        )
    assert record.acknowledged_at is not None
    is_corrected = record.deadline < record.triggered_at
    timeout = record.deadline - (record.acknowledged_at if is_corrected else record.triggered_at)
    return Decide(decided, max(record.ends_at, decided.at + timeout))


def choose_held(pipeline_id: str, in_progress: Sequence[CheckpointRecord]) -> CheckpointRecord:
    """Choose the checkpoint for a decision that names none. Raises `NotHeldError`. Performs no I/O."""
    held = [record for record in in_progress if is_held(record)]
    if len(held) > 1:
        ids = ", ".join(str(record.checkpoint_id) for record in held)
        raise NotHeldError(
            f"Checkpoints {ids} of pipeline {pipeline_id} wait for a decision. Nothing was changed. Name one of them: "
            "the newest has the rows of the older ones too."
        )
    if not held:
        raise NotHeldError(
            f"No checkpoint of pipeline {pipeline_id} waits for approval. Nothing was changed. `tidegate checkpoints "
            f"{pipeline_id}` lists those it has."
        )
    return held[0]


def _name(record: CheckpointRecord) -> str:
    return f"Checkpoint {record.checkpoint_id} of pipeline {record.pipeline_id}"


def _what_was_decided(record: CheckpointRecord) -> str:
    decided = record.decided
    assert decided is not None
    comment = f" ({decided.comment})" if decided.comment else ""
    return f"{decided.decision.lower()} by {decided.by} at {decided.at:%Y-%m-%d %H:%M:%S} UTC{comment}."


def _where(record: CheckpointRecord) -> str:
    if record.failure_reason is not None:
        return f"it is {record.status}, {record.failure_reason.name}. {reassured(record.failure_message or '')}"
    return f"it is {record.status if record.status is not Status.IN_PROGRESS else record.phase}."
