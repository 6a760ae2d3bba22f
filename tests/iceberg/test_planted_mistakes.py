"""Mistakes that somebody could make in IcebergSink, each planted, and each noticed by what a table shows then."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import iceberg_lives as lives
import pytest
from iceberg_tables import Lake
from marts import Server
from pyiceberg.table import StaticTable
from pyiceberg.table.update import AssertTableUUID
from sqlalchemy import select

from tidegate.iceberg import catalog, changes, elsewhere, garbage, keeping, swapping
from tidegate.iceberg.reach import Reach
from tidegate.protocol.facts.errors import CheckpointError


def without_rows(original: Any) -> Any:
    return lambda location: replace(original(location), data=frozenset())


def without_manifests(original: Any) -> Any:
    def files(location: str) -> Reach:
        found = original(location)
        return replace(found, metadata=frozenset(each for each in found.metadata if not each.endswith(".avro")))

    return files


def without_the_present(original: Any) -> Any:
    return lambda location: replace(original(location), metadata=original(location).metadata - {location})


def of_the_head(original: Any) -> Any:
    """What the snapshot refers to that readers see."""

    def files(location: str) -> Reach:
        table = StaticTable.from_metadata(location)
        head = table.current_snapshot()
        assert head is not None
        manifests = head.manifests(table.io)
        rows = {entry.data_file.file_path for each in manifests for entry in each.fetch_manifest_entry(table.io)}
        return Reach(original(location).metadata, frozenset(rows))

    return files


def of_readers_alone(original: Any) -> Any:
    """As if only the branch had a snapshot that is needed."""

    def found(draft: Any) -> list[int]:
        return [each.snapshot_id for each in draft.metadata.snapshots if each != draft.head]

    return found


def as_if_the_newest_was_kept(original: Any) -> Any:
    return lambda draft, kept: original(draft, kept and [max(kept)])


def nothing(original: Any) -> Any:
    return lambda *given: None


def none(original: Any) -> Any:
    return lambda *given: []


def as_prepared_first(original: Any) -> Any:
    """What was prepared on another state of the table."""
    first: list[Any] = []

    def staged(change: Any, base: str | None) -> Any:
        if not first or first[0] is not change:
            first[:] = [change, original(change, base)]
        return replace(first[1], base=base)

    return staged


def not_locked(original: Any) -> Any:
    def location(statements: Any, table: Any) -> Any:
        rows = statements.query(select(catalog._TABLES.c.metadata_location).where(catalog._is(table)))
        return rows[0][0] if rows else None

    return location


LED_TO: dict[Any, str] = {}


def believing(original: Any) -> Any:
    LED_TO.clear()
    return lambda statements, table: LED_TO.get(table) or original(statements, table)


def noting(original: Any) -> Any:
    def swap(statements: Any, table: Any, base: str | None, location: str) -> bool:
        LED_TO[table] = location
        return bool(original(statements, table, base, location))

    return swap


def whatever_it_has(original: Any) -> Any:
    """Instead of the expected value the one that is there."""
    locked = catalog.locked_location
    return lambda statements, table, base, location: original(statements, table, locked(statements, table), location)


def nothing_released(original: Any) -> Any:
    return lambda *given: original(*given[:-1], ())


def for_good(original: Any) -> Any:
    def withdraw(draft: Any, branch: Any) -> None:
        for id_, tag in keeping.tagged(draft.metadata.refs, keeping.TAG).items():
            if id_ not in branch:
                draft.release(tag)

    return withdraw


def whoever_was_there(original: Any) -> Any:
    def take_over(draft: Any, refs: Any, attempt: Any) -> Any:
        original(draft, refs, attempt)
        return [AssertTableUUID(uuid=draft.metadata.table_uuid)]

    return take_over


@dataclass
class Mistake:
    """In functions of these names, noticed by what happens to a table."""

    places: tuple[tuple[Any, str, Callable[[Any], Any]], ...]
    happens: Callable[[lives.World, pytest.MonkeyPatch], None]


MISTAKES = {
    "rows that the table has taken over are discarded": Mistake(
        ((garbage, "files_of", without_rows),), lives.old_checkpoints_go
    ),
    "manifests that the table has taken over are swept": Mistake(
        ((garbage, "files_of", without_manifests),), lives.old_checkpoints_go
    ),
    "the present metadata file is deleted": Mistake(
        ((garbage, "files_of", without_the_present),), lives.old_checkpoints_go
    ),
    "only the snapshot that readers see is asked for its files": Mistake(
        ((garbage, "files_of", of_the_head),), lives.a_snapshot_is_tagged
    ),
    "a snapshot with a tag expires": Mistake(
        ((keeping, "unreferenced", of_readers_alone),), lives.a_snapshot_is_tagged
    ),
    "the snapshot of a checkpoint that can be restored expires": Mistake(
        ((keeping, "expire", as_if_the_newest_was_kept),), lives.restored_to_the_oldest
    ),
    "the snapshot of a savepoint expires": Mistake(
        ((keeping, "expire", as_if_the_newest_was_kept),), lives.restored_to_a_savepoint
    ),
    "the tags of withdrawn checkpoints are forgotten": Mistake(
        ((keeping, "withdraw", for_good),), lives.restored_and_undone
    ),
    "files that somebody may be reading go with their checkpoint": Mistake(
        ((garbage, "lingering", none),), lives.opened_before_it_was_replaced
    ),
    "released files are deleted at once": Mistake(
        ((garbage, "released_before", lambda original: lambda content, *_: swapping.lingering(content)),),
        lives.opened_before_it_was_replaced,
    ),
    "released files are not recorded": Mistake(((swapping, "record", nothing_released),), lives.replaced_often),
    "a table that is replaced undoes what others did": Mistake(
        ((changes, "require_own", nothing),), lives.changed_by_others
    ),
    "an append is not prepared again": Mistake(((changes, "staged", as_prepared_first),), lives.appended_meanwhile),
    "the catalog is not locked": Mistake(
        ((catalog, "locked_location", not_locked),), lives.changed_in_the_same_instant
    ),
    "the pointer is swapped without its expected value": Mistake(
        ((catalog, "locked_location", not_locked), (catalog, "swap", whatever_it_has)),
        lives.changed_in_the_same_instant,
    ),
    "the table is believed to be where an aborted transaction has led it": Mistake(
        ((catalog, "locked_location", believing), (catalog, "swap", noting)), lives.aborted_at_its_end
    ),
    "an attempt that was overtaken commits elsewhere": Mistake(
        ((elsewhere, "_take_over", whoever_was_there),), lives.overtaken_in_a_commit
    ),
    "an attempt that is late commits elsewhere": Mistake(
        ((elsewhere, "_require_newest", nothing),), lives.overtaken_before_it
    ),
}
NOTICED = (AssertionError, pytest.fail.Exception, CheckpointError, FileNotFoundError)


@pytest.fixture
def world(lake: Lake, here_and_lake: Server, mart: Any, other_catalog: None) -> lives.World:
    return lives.World(lake, here_and_lake, mart)


@pytest.mark.parametrize("sentence", MISTAKES)
def test_a_planted_mistake_is_noticed(world: lives.World, monkeypatch: pytest.MonkeyPatch, sentence: str) -> None:
    for owner, name, make in MISTAKES[sentence].places:
        monkeypatch.setattr(owner, name, make(getattr(owner, name)))
    with pytest.raises(NOTICED):
        MISTAKES[sentence].happens(world, monkeypatch)


@pytest.mark.parametrize("happens", {m.happens.__name__: m.happens for m in MISTAKES.values()}.values())
def test_and_by_nothing_else(world: lives.World, monkeypatch: pytest.MonkeyPatch, happens: Any) -> None:
    happens(world, monkeypatch)
