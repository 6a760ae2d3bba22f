"""Planted mistakes in how a pipeline that runs continuously goes back."""

from dataclasses import replace

from memory_transaction import MemoryTransaction

from mutations.planting import mutation
from tidegate.coordination.recovery.restore import Restoring
from tidegate.coordination.steps import region_lease as control
from tidegate.coordination.steps import rewinding_sinks as rewinding
from tidegate.coordination.steps.region_lease import RegionControl
from tidegate.coordination.steps.rewinding_sinks import Rewinding


@mutation("a region goes on although its pipeline was restored", (Restoring, "_commit"))
def _(original):
    def commit(self, tx, facts, accepted):
        tx.end_region = lambda attempt, at: True
        original(self, tx, facts, accepted)

    return commit


@mutation("a region that was ended goes on beginning snapshots", (control, "is_current"))
def _(original):
    return lambda region, attempt: region.attempt == attempt


@mutation("a region begins with the newest checkpoint, though it was left behind", (MemoryTransaction, "retained"))
def _(original):
    def retained(self):
        return sorted((*original(self), *self.abandoned()), key=lambda record: record.checkpoint_id)

    return retained


@mutation("tables of a region that was fenced stay as they are", (Rewinding, "_rewind"))
def _(original):
    def rewind(self, committer, restore):
        with self._context.transaction() as tx:
            tx.mark_rewound(restore.number, committer.number, self._context.clock.now())
            tx.end_commit(committer.number)

    return rewind


@mutation("what was in flight when the restored checkpoint was taken is lost", (RegionControl, "start"))
def _(original):
    def start(self):
        begun = original(self)
        with self._context.transaction() as tx:
            is_restored = any(restore.checkpoint_id == begun.checkpoint_id for restore in tx.restores())
        nothing = {id_: _without_in_flight(snapshot) for id_, snapshot in begun.restored.items()}
        return replace(begun, restored=nothing) if is_restored else begun

    return start


def _without_in_flight(snapshot):
    return replace(snapshot, position={k: v for k, v in (snapshot.position or {}).items() if k != "in_flight"})


@mutation("withdrawn rows go although a restore can be undone", (rewinding, "choose_withdrawn_for_good"))
def _(original):
    return lambda withdrawn, completed, restores: [
        id_ for id_ in withdrawn if id_ not in rewinding.branch_of(None, restores)
    ]
