"""Mistakes planted in a fork: a life of the two pipelines notices each."""

from dataclasses import replace

import pytest
from forks import SAVEPOINT, New
from memory_store import MemoryCheckpointStore
from memory_transaction import MemoryTransaction
from pasts import OP
from savepoint_directories import past_of

from tidegate.coordination import fork as forking
from tidegate.coordination.fork import Forking
from tidegate.coordination.history import History
from tidegate.coordination.identity import Identification
from tidegate.coordination.import_lease import ImportLease
from tidegate.coordination.notify import Outstanding
from tidegate.coordination.recover import Recovering
from tidegate.coordination.savepoint_directory import CopiedFiles
from tidegate.protocol.errors import CheckpointError, ForkRefusedError
from tidegate.protocol.imports import IMPORT_LEASE, Imported
from tidegate.protocol.names import Fork
from tidegate.protocol.records import HandleKind
from tidegate.protocol.recovered import AcceptedLosses


def live():
    """Everything that a mistake could show in."""
    new = New(past_of(MemoryCheckpointStore()))
    original, untouched, region = new.original, new.untouched(), new.coordinator.start_region()
    late = new.plan(SAVEPOINT)
    new.fork(SAVEPOINT)
    assert new.untouched() == untouched
    with pytest.raises(ForkRefusedError):
        new.coordinator.fork(late)
    new.clock.advance(2 * IMPORT_LEASE.total_seconds())
    new.coordinator.clean()
    new.check_all_is_needed()
    with pytest.raises(CheckpointError):
        new.coordinator.keep_region(region.attempt)
    with new.store.transaction("q") as tx:
        (first,) = tx.retained()
        assert (first.checkpoint_id, first.request_id, tx.imports()) == (3, "fork:p/2/kept", {})
        assert {each.name for each in tx.endpoints()} == {"src", "out"}
    original.restore(2)
    original.take("r5")
    original.coordinator.dispose("kept")
    original.coordinator.cancel()
    new.check_all_is_needed()
    new.store = MemoryCheckpointStore()
    new.reopen(new.store)
    recovering = Recovering(new.coordinator.graph, new.store, new.storage, new.clock)
    recovering.recover(recovering.plan(), AcceptedLosses())
    new.check_forked()


def test_without_a_mistake_nothing_is_noticed():
    live()


def _shares_files(original):
    return lambda snapshots, *more: Imported(snapshots, [])


def _loses_positions(original):
    def forked(*arguments):
        found = original(*arguments)
        return Imported({id_: replace(each, position=None) for id_, each in found.snapshots.items()}, found.copies)

    return forked


def _takes_staged_rows(original):
    def forked(snapshots, *more):
        found = original(snapshots, *more)
        staged = {
            id_: replace(found.snapshots[id_], handles=(*found.snapshots[id_].handles, *_staged(snapshots[id_])))
            for id_ in found.snapshots
        }
        return Imported(staged, found.copies)

    return forked


def _staged(snapshot):
    return [handle for handle in snapshot.handles if handle.kind is HandleKind.STAGED]


def _forgets_the_oldest_run(original):
    def forked(*arguments):
        found = original(*arguments)
        op = found.snapshots[OP]
        return Imported({**found.snapshots, OP: replace(op, handles=op.handles[1:])}, found.copies)

    return forked


def _copies_once_less(original):
    return lambda self, copies, *more: original(self, copies[:-1], *more)


def _moves(original):
    def copy(self, copies, homes, keep):
        original(self, copies, homes, keep)
        self.storage.delete([each.handle.path for each in copies])

    return copy


def _nothing(original):
    return lambda *arguments, **named: None


def _is_never_ended(original):
    return lambda self, checkpoint_id, at: True


MISTAKES = {
    "it refers to the original's files": (forking, "forked", _shares_files),
    "it has no positions": (forking, "forked", _loses_positions),
    "it has what is staged for the original's table": (forking, "forked", _takes_staged_rows),
    "it has a part of the state": (forking, "forked", _forgets_the_oldest_run),
    "a file is not copied": (CopiedFiles, "copy", _copies_once_less),
    "files are moved": (CopiedFiles, "copy", _moves),
    "its ids begin anew": (ImportLease, "begin", lambda original: lambda self, tx, after: original(self, tx, 0)),
    "its turn is not ended": (MemoryTransaction, "end_import", _is_never_ended),
    "the marker is not written": (forking, "find_outstanding", lambda original: lambda tx: Outstanding((), ())),
    "its metadata is not written": (forking, "write_metadata", _nothing),
    "the checkpoint is not recorded": (History, "record", _nothing),
    "its sources and sinks are not recorded": (Identification, "record", _nothing),
    "a region that began with nothing goes on": (MemoryTransaction, "end_region", _nothing),
    "it is begun twice": (Forking, "_require_to_begin", _nothing),
    "it does not say where it came from": (Fork, "__str__", lambda original: lambda self: "fork"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noticed(mistake, monkeypatch):
    owner, name, make = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, make(getattr(owner, name)))
    noticed = False
    try:
        live()
    except (AssertionError, CheckpointError, pytest.fail.Exception):
        noticed = True
    assert noticed
