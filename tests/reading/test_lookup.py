"""Looking up a key costs no more than it may: so many checkpoints, so long, and so many at once."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest
from records import T0, completed
from store_steps import FIRST, PIPELINE, handle
from store_steps import completed as take

from tidegate.protocol.facts.errors import IllegalRequestError, StorageError
from tidegate.protocol.facts.records import HandleKind, StateHandle, SubtaskId
from tidegate.protocol.schema.operator_state import OperatorState
from tidegate.reading import lookup
from tidegate.reading.lookup import LONGEST, MOST_CHECKPOINTS, Lookups, Split, States, find_states
from tidegate.state.stored import StoredState


class Slow:
    """Each row takes a second, and is that of its checkpoint."""

    def __init__(self) -> None:
        self.time, self.open = T0, Event()
        self.open.set()

    def now(self) -> Any:
        return self.time

    def key_columns(self, state: OperatorState) -> Sequence[tuple[str, str]]:
        self.open.wait(10)
        return [("k", "string")]

    def files_of(self, position: StateHandle, checkpoint_id: int) -> Sequence[tuple[str, int]]:
        raise AssertionError("nobody asks")

    def row_of(self, state: OperatorState, key: Sequence[str | None]) -> Mapping[str, Any]:
        self.time += timedelta(seconds=1)
        if state.checkpoint_id == 7:
            raise IllegalRequestError("another key")
        return {"k": key[0], "at": state.checkpoint_id // 2}


def states(*ids: int, more: bool = False) -> States:
    of = [(completed(id_), OperatorState("p", "op", id_, 8, (), T0)) for id_ in ids]
    return States(of[0][1], of, more)


def test_a_history_is_cut_short_when_it_takes_too_long() -> None:
    slow = Slow()
    found = Lookups(slow, slow.now).look_up(states(*range(99, 89, -1)), ["a"])
    assert [at.checkpoint_id for at in found.history] == [99, 98, 97, 96]
    assert slow.time - T0 == LONGEST
    assert not found.complete


def test_what_differs_from_the_checkpoint_before_is_marked() -> None:
    slow = Slow()
    found = Lookups(slow, slow.now).look_up(states(11, 10, 9), ["a"])
    assert [(at.checkpoint_id, at.changed) for at in found.history] == [(11, False), (10, True), (9, False)]
    assert found.complete
    assert not Lookups(slow, slow.now).look_up(states(11, more=True), ["a"]).complete
    before = Lookups(slow, slow.now).look_up(states(8, 7, 6), ["a"]).history
    assert [(at.problem, at.changed) for at in before] == [
        (None, False), ("This checkpoint has other key columns.", False), (None, False),
    ]  # fmt: skip


def test_only_some_are_looked_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_PATIENCE", 0.05)
    slow = Slow()
    slow.open.clear()
    lookups = Lookups(slow, slow.now)
    busy = [Thread(target=lookups.look_up, args=(states(1), None)) for _ in range(lookup._AT_ONCE)]
    for thread in busy:
        thread.start()
    with pytest.raises(StorageError, match="Try again"):
        lookups.look_up(states(1), None)
    slow.open.set()
    for thread in busy:
        thread.join()
    assert lookups.look_up(states(1), None).key_columns[0].name == "k"


def test_so_many_checkpoints_are_read_and_only_the_files_of_the_operator(pages, store) -> None:
    readings = pages().readings
    for id_ in range(1, MOST_CHECKPOINTS + 3):
        take(store, {FIRST: [handle(f"{PIPELINE}/chk-{id_}/a", id_)]}, notified=False)
    found = readings._of(PIPELINE, lambda connection: find_states(connection, PIPELINE, FIRST.operator_id, 2))
    assert (found.requested.checkpoint_id, found.more, len(found.kept)) == (2, True, MOST_CHECKPOINTS)
    assert [record.checkpoint_id for record, _ in found.kept][:2] == [MOST_CHECKPOINTS + 2, MOST_CHECKPOINTS + 1]
    assert [run.path for run in found.requested.runs] == [f"{PIPELINE}/chk-2/a"]


@pytest.mark.parametrize("path", ["other/chk-1/op/0-1-a.parquet", "pp/x", "/etc/passwd", "p/../../etc/passwd"])
def test_a_file_of_another_pipeline_is_not_read(path: str, tmp_path: Any) -> None:
    file = StateHandle(path, HandleKind.RUN, 1, 1, "0" * 64, 1)
    state = OperatorState("p", "op", 1, 8, ((file,),), T0)
    lookups = Lookups(StoredState(str(tmp_path), None), lambda: T0)
    refused = r"belongs to another pipeline|not a path below"
    with pytest.raises(StorageError, match=refused):
        lookups.look_up(States(state, [], False), ["a"])
    with pytest.raises(StorageError, match=refused):
        lookups.files_read(Split("p", 1, SubtaskId("source", 0), [file]))
    if not path.startswith("p/"):
        good = OperatorState("p", "op", 1, 8, (), T0)
        with pytest.raises(StorageError, match=refused):
            Lookups(Slow(), lambda: T0).look_up(States(good, [(completed(1), state)], False), ["a"])
