"""Planted mistakes in how a checkpoint waits for a person, and in what that person's decision does."""

from dataclasses import replace
from datetime import timedelta

from memory_state import PipelineState
from memory_transaction import MemoryTransaction
from simulator.holding import held_in, waits

from mutations.planting import MUTATIONS, Replacement, mutation
from tidegate.coordination.continuous import completing
from tidegate.coordination.steps import hold as holds
from tidegate.coordination.steps import region_lease as region_control
from tidegate.coordination.steps import trigger as desks
from tidegate.coordination.steps import validate as validations
from tidegate.coordination.steps.hold import Holds
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.records import CheckpointRecord, Decision
from tidegate.protocol.steps import approvals as approving
from tidegate.protocol.steps.hold import Decide
from tidegate.protocol.steps.verdicts import APPROVED


@mutation("an approval lets a checkpoint go on and is not recorded", (MemoryTransaction, "decide"))
def _(original):
    def decide(self, checkpoint_id, decided, deadline):
        if decided.decision is Decision.REJECTED:
            return original(self, checkpoint_id, decided, deadline)
        checkpoint = self.state.checkpoints[checkpoint_id]
        self._move(checkpoint, (Status.IN_PROGRESS, Phase.VALIDATED), validated_at=decided.at, deadline=deadline)
        return True

    return decide


@mutation("a decision counts after the end of the hold", (holds, "decide_decision"))
def _(original):
    def decide(record, decided):
        if not waits(record):
            return original(record, decided)
        return Decide(replace(decided, at=min(decided.at, record.held_at)), record.ends_at)

    return decide


@mutation("a held checkpoint expires with its own deadline", (CheckpointRecord, "ends_at"))
def _(original):
    return property(lambda self: self.deadline)


@mutation("a checkpoint begins beside one that is held", (desks, "choose_request"))
def _(original):
    return lambda waiting, *, in_progress, **facts: original(
        waiting, in_progress=[record for record in in_progress if not waits(record)], **facts
    )


@mutation("a decision about an earlier checkpoint counts for the one that is held", (Holds, "_decide"))
def _(original):
    def decide(self, checkpoint_id, *rest):
        return original(self, None, *rest)

    return decide


MUTATIONS["what a held checkpoint has staged is swept"] = (
    Replacement(
        PipelineState,
        "live",
        lambda original: (
            lambda self: (
                (id_, by, file) for id_, by, file in original(self) if not (id_ and waits(self.checkpoints[id_]))
            )
        ),
    ),
    Replacement(
        MemoryTransaction,
        "unswept",
        lambda original: (
            lambda self: (
                original(self)
                | {held.checkpoint_id: held.held_at for held in [held_in(self.state)] if held is not None}
            )
        ),
    ),
)


@mutation("what is held is judged once more", (validations, "needs_validation"))
def _(original):
    return lambda record: waits(record) or original(record)


@mutation("a rule that aborts is held like the others", (validations, "decide_hold"))
def _(original):
    return lambda targets, verdicts, rules: min(
        (rule for each in rules.values() for rule in each if rule is not None), default=None
    )


@mutation("the longest of the holds is the one that counts", (validations, "decide_hold"))
def _(original):
    def decide(targets, verdicts, rules):
        hold_for = original(targets, verdicts, rules)
        return hold_for and hold_for + timedelta(minutes=1)

    return decide


@mutation("a region aborts what is held", (completing, "CheckpointHeldError"))
def _(original):
    return type("Another", (Exception,), {})


@mutation(
    "a new region aborts what a person decides about",
    (region_control, "is_held"),
    (region_control, "is_approved"),
)
def _(original):
    return lambda record: False


@mutation("a scheduled run aborts what a person decides about beside a dead region", (region_control, "is_with_people"))
def _(original):
    return lambda record: False


@mutation("an approved checkpoint is given up with its old deadline", (holds, "decide_decision"))
def _(original):
    def decide(record, decided):
        outcome = original(record, decided)
        return replace(outcome, deadline=record.deadline) if isinstance(outcome, Decide) else outcome

    return decide


@mutation("a rejected checkpoint goes on", (holds, "fail_checkpoint"))
def _(original):
    return lambda tx, checkpoint_id, reason, message, now: True


@mutation("the last of two decisions counts", (holds, "decide_decision"))
def _(original):
    def decide(record, decided):
        undecided = record.decision is not None and record.status is Status.IN_PROGRESS
        if undecided and decided.decision is not record.decision:
            return Decide(decided, record.deadline)
        return original(record, decided)

    return decide


@mutation("an approval is forgotten with the next checkpoint", (approving, "_approval"))
def _(original):
    return lambda record, result: original(record, {name: each for name, each in result.items() if name != APPROVED})
