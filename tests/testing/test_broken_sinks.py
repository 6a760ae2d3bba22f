"""Sinks with one mistake each: the suite notices it, in the test that is about it."""

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cases import for_each
from parquet_sinks import shown_rows
from sqlite_suite import SqliteSuite

from own_connectors.sqlite_sink import SqliteSink
from tidegate import ParquetSink
from tidegate.ports import Branch, CommitAttempt, StageContext, StateHandle
from tidegate.protocol.recovery.ownership import Owner
from tidegate.testing import SinkSuite


class Unlocked(SqliteSink):
    """Each statement is a transaction of its own."""

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            for batch in self.batches(staged):
                db.execute("CREATE TABLE IF NOT EXISTS orders (k, v)")
                for row in batch.to_pylist():
                    there = db.execute("SELECT 1 FROM orders WHERE k = ?", [row["k"]]).fetchone()
                    if not there:
                        db.execute("INSERT INTO orders VALUES (?, ?)", [row["k"], row["v"]])


class Forgetful(SqliteSink):
    """It does not know what it has committed."""

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        with closing(sqlite3.connect(self.path, timeout=self.timeout)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS orders (k, v)")
            for batch in self.batches(staged):
                rows = [tuple(row.values()) for row in batch.to_pylist()]
                db.executemany("INSERT INTO orders VALUES (?, ?)", rows)


class Unfenced(SqliteSink):
    """It asks what it has committed before the transaction, not in it."""

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        with closing(sqlite3.connect(self.path, timeout=self.timeout, isolation_level=None)) as db:
            db.execute("CREATE TABLE IF NOT EXISTS orders (k, v)")
            db.execute("CREATE TABLE IF NOT EXISTS done (checkpoint INT)")
            attempt.confirm()
            if db.execute("SELECT 1 FROM done WHERE checkpoint = ?", [checkpoint_id]).fetchone():
                return
            rows = [tuple(row.values()) for batch in self.batches(staged) for row in batch.to_pylist()]
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO orders VALUES (?, ?)", rows)
            db.execute("INSERT INTO done VALUES (?)", [checkpoint_id])
            db.execute("COMMIT")


class Partial(SqliteSink):
    """It commits the first batch of the first file."""

    def batches(self, staged: Sequence[StateHandle]) -> Iterator[pa.RecordBatch]:
        for handle in staged:
            yield from list(super().batches([handle]))[:1]


class Needy(SqliteSink):
    """It expects rows."""

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        print(staged[0].path)
        super().commit(checkpoint_id, staged, attempt)


class Choosy(SqliteSink):
    """It leaves out rows without a key."""

    def batches(self, staged: Sequence[StateHandle]) -> Iterator[pa.RecordBatch]:
        for batch in super().batches(staged):
            yield batch.filter(batch.column("k").is_valid())


class Textual(SqliteSink):
    """It takes every type, and stores its text."""

    def unstorable(self, columns: pa.Schema) -> list[str]:
        return []

    def batches(self, staged: Sequence[StateHandle]) -> Iterator[pa.RecordBatch]:
        for batch in super().batches(staged):
            rows = [{"k": row["k"], "v": str(row["v"])} for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, pa.schema({"k": pa.int64(), "v": pa.string()}))


class Careless(SqliteSink):
    """It verifies nothing."""

    def verify(self, staged: Sequence[StateHandle], in_full: Collection[str]) -> None:
        return None


class Destructive(SqliteSink):
    """It deletes rows with the files that they came from."""

    def discard(self, paths: Sequence[str]) -> None:
        super().discard(paths)
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS orders (k, v)")
            db.execute("DELETE FROM orders")


class Untidy(SqliteSink):
    """It does not list what was staged and does not count."""

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        return []


class Cryptic(SqliteSink):
    def describe(self) -> dict[str, Any]:
        return {"type": "Cryptic", "path": Path(self.path)}


@dataclass(frozen=True)
class OddWriter:
    inner: Any
    change: Callable[[StageContext], StageContext] = lambda context: context
    lock: Any = None
    shows: str | None = None

    def stage(self, rows: pa.Table, context: StageContext) -> list[StateHandle]:
        if self.shows:
            with closing(sqlite3.connect(self.shows)) as db, db:
                db.execute("CREATE TABLE IF NOT EXISTS orders (k, v)")
                db.executemany("INSERT INTO orders VALUES (?, ?)", [tuple(row.values()) for row in rows.to_pylist()])
        return self.inner.stage(rows, self.change(context))


class Nameless(SqliteSink):
    """Two attempts write to one file."""

    def writer(self) -> Any:
        return OddWriter(super().writer(), lambda context: replace(context, attempt=1, unique="rows"))


class Rooted(SqliteSink):
    """Its writer cannot leave the process."""

    def writer(self) -> Any:
        return OddWriter(super().writer(), lock=threading.Lock())


class Hasty(SqliteSink):
    """It shows rows when they are staged."""

    def writer(self) -> Any:
        return OddWriter(super().writer(), shows=self.path)


class Still(ParquetSink):
    """It does not go back."""

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        attempt.confirm()


class Final(ParquetSink):
    """What it has withdrawn does not come back."""

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        super().rewind(checkpoint_id, branch, staged, attempt)
        self.delete_withdrawn(self.withdrawn(), attempt)


class Shared(ParquetSink):
    """The last pipeline gets the directory."""

    def mark(self, owner: Owner) -> Owner:
        self.mark_anew(owner)
        return owner


class Shortened(ParquetSink):
    """Fewer rows are judged than are shown."""

    def staged_rows(self, staged: Sequence[StateHandle]) -> Any:
        return super().staged_rows(staged[:1])


NOTICED: list[tuple[type[Any], str]] = [
    (Unlocked, "test_a_commit_killed_anywhere_shows_all_or_nothing_and_is_finished_by_a_repetition"),
    (Forgetful, "test_a_repeated_commit_changes_nothing"),
    (Unfenced, "test_a_commit_that_was_stopped_and_goes_on_after_later_ones_changes_nothing"),
    (Partial, "test_many_rows_are_committed_whole"),
    (Needy, "test_a_checkpoint_without_rows_is_committed"),
    (Choosy, "test_null_is_a_value_and_a_key"),
    (Textual, "test_every_type_is_kept_or_refused_beforehand"),
    (Careless, "test_staged_files_are_verified"),
    (Destructive, "test_only_staged_files_are_discarded"),
    (Untidy, "test_only_staged_files_are_discarded"),
    (Untidy, "test_staging_killed_anywhere_leaves_only_what_is_listed_and_discarded"),
    (Cryptic, "test_it_says_what_it_is"),
    (Nameless, "test_a_staged_file_is_named_after_its_checkpoint_subtask_and_attempt"),
    (Rooted, "test_a_writer_travels_to_executors"),
    (Hasty, "test_what_is_staged_is_not_shown"),
    (Still, "test_a_restore_shows_what_was_shown_then_and_its_undo_what_is_shown_now"),
    (Final, "test_a_restore_shows_what_was_shown_then_and_its_undo_what_is_shown_now"),
    (Shared, "test_a_place_has_one_owner"),
    (Shortened, "test_staged_rows_are_read_back_to_be_validated"),
]


def suite_of(broken: type[Any]) -> SinkSuite[Any]:
    class OnSqlite(SqliteSuite):
        def sink(self, directory: Path) -> SqliteSink:
            made: SqliteSink = broken(str(directory / "orders.db"), "orders", timeout=0.05)
            return made

    class OnParquet(SinkSuite[ParquetSink]):
        def sink(self, directory: Path) -> ParquetSink:
            made: ParquetSink = broken(str(directory))
            return made

        def shown(self, sink: ParquetSink) -> list[dict[str, Any]]:
            return shown_rows(sink.root)

    return OnParquet() if issubclass(broken, ParquetSink) else OnSqlite()


class WithoutSpark:
    """A `pytest.FixtureRequest` in a project that has no fixture `spark`."""

    def getfixturevalue(self, name: str) -> None:
        raise pytest.FixtureLookupError(name, self)  # type: ignore[arg-type]


@for_each(("broken", "test"), NOTICED)
def test_a_mistake_is_noticed(broken: type[Any], test: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / f"{broken.__name__}-{test[:40]}"
    directory.mkdir()
    monkeypatch.setenv("TIDEGATE_HOME", str(directory))
    run = getattr(suite_of(broken), test)
    more = [WithoutSpark()] if "read_back" in test else []
    with pytest.raises((AssertionError, IndexError, TypeError)) as noticed:
        run(directory, *more)
    print(f"{broken.__name__}: {str(noticed.value)[:200]}")
