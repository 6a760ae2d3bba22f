"""Tables of a REST catalog: several in one commit, where the catalog takes that."""

import time
from pathlib import Path

import pyarrow as pa
import pytest
from iceberg_tables import files_below
from marts import values
from rest_catalogs import ALONE, TOGETHER

import tidegate
from tidegate import IcebergSink, IcebergSource
from tidegate.iceberg.catalogs import close_catalogs
from tidegate.ports import SinkCommit, SourceContext
from tidegate.protocol.facts.errors import (
    RowsRefusedError,
    SinkError,
    SinkUnavailableError,
    SourceUnavailableError,
    SupersededAttemptError,
)


def tables(space):
    return {
        "one": IcebergSink(f"{space}.one", catalog="lake"),
        "two": IcebergSink(f"{space}.two", catalog="lake"),
        "latest": IcebergSink(f"{space}.latest", "latest", catalog="lake"),
    }


def shown(rest, space):
    return {name: rest.values(f"{space}.{name}") for name in ("one", "two", "latest")}


def take(of, number):
    return of.take(**dict.fromkeys(("one", "two", "latest"), values(number)))


def as_of(number):
    return {"one": list(range(1, number + 1)), "two": list(range(1, number + 1)), "latest": [number]}


def commits(rest, space):
    """The tables of each commit in this test's namespace."""
    found = (
        [name.removeprefix(f"{space}.") for name in names if name.startswith(f"{space}.")] for names in rest.commits()
    )
    return [sorted(names) for names in found if names]


ALL = ["latest", "one", "two"]


def test_all_tables_of_a_pipeline_change_in_one_commit(mart, rest, space):
    of = mart(**tables(space), retained=3)
    assert of.sinks["one"].commits is SinkCommit.AFTER_THE_COMMIT
    for number in range(1, 7):
        take(of, number)
        of.coordinator.clean()
        assert shown(rest, space) == as_of(number)
    assert commits(rest, space) == [["one"], ["two"], ["latest"], *[ALL] * 6]
    of.restore(5)
    assert shown(rest, space) == as_of(5)
    of.restore()
    assert shown(rest, space) == as_of(6)
    assert commits(rest, space)[9:] == [ALL, ALL]
    assert tidegate.read("mart", "one", checkpoint=5).arrow()["one"]["v"].to_pylist() == [1, 2, 3, 4, 5]


def test_one_after_the_other_if_the_server_takes_one_table_at_a_time(mart, rest, space):
    rest.say(together=False)
    of = mart(**tables(space))
    take(of, 1)
    take(of, 2)
    assert shown(rest, space) == as_of(2)
    assert commits(rest, space)[-3:] == [["one"], ["two"], ["latest"]]


def test_one_after_the_other_if_the_shortcut_is_not_taken(mart, rest, space, monkeypatch):
    monkeypatch.setenv("TIDEGATE_SHORTCUTS", "none")
    of = mart(**tables(space))
    take(of, 1)
    assert shown(rest, space) == as_of(1)
    assert ALL not in commits(rest, space)


def test_a_table_that_cannot_be_changed_keeps_the_others_as_they_were(mart, rest, space):
    of = mart(**tables(space))
    take(of, 1)
    rest.table(f"{space}.latest").append(values(10))
    id_ = of.finalize(**dict.fromkeys(tables(space), values(2)))
    with pytest.raises(SinkError, match="another writer has committed snapshot"):
        of.coordinator.notify(id_)
    assert shown(rest, space) == {**as_of(1), "latest": [1, 10]}


def test_an_attempt_that_was_overtaken_changes_nothing(mart, rest, space):
    of = mart(**tables(space))
    take(of, 1)
    take(of, 2)
    members = [(of.sinks[name], ()) for name in tables(space)]
    with pytest.raises(SupersededAttemptError, match="overtaken by attempt"):
        of.sinks["one"].commit_group(3, members, Attempt(1))
    assert shown(rest, space) == as_of(2)


class Attempt:
    """One that does not know that it was overtaken."""

    def __init__(self, number):
        self.number = number

    def confirm(self):
        pass

    keep = confirm


def test_a_conflict_is_tried_again_with_the_tables_as_they_are(mart, rest, space):
    of = mart(**tables(space))
    take(of, 1)
    rest.fault(TOGETHER, 409, times=2)
    take(of, 2)
    assert shown(rest, space) == as_of(2)
    rest.fault(TOGETHER, 409, times=5)
    id_ = of.finalize(**dict.fromkeys(tables(space), values(3)))
    with pytest.raises(
        SinkUnavailableError, match=r"other writers have changed it 5 times meanwhile\. The checkpoint is complete"
    ):
        of.coordinator.notify(id_)
    of.coordinator.notify(id_)
    assert shown(rest, space) == as_of(3)


@pytest.mark.parametrize("status", [0, 502])
def test_an_answer_that_was_lost_is_found_in_the_tables(mart, rest, space, status):
    of = mart(**tables(space))
    take(of, 1)
    rest.fault(TOGETHER, status, when="after")
    take(of, 2)
    assert shown(rest, space) == as_of(2)
    assert commits(rest, space)[-2:] == [ALL, ALL]


def test_a_server_that_does_not_answer_is_not_waited_for_for_ever(mart, rest, space, monkeypatch):
    of = mart(**tables(space))
    take(of, 1)
    monkeypatch.setattr("tidegate.iceberg.rest.TIME_LIMIT", 5)
    close_catalogs()
    rest.fault(TOGETHER, when="after", seconds=100)
    begun = time.monotonic()
    take(of, 2)
    assert time.monotonic() - begun < 90
    assert shown(rest, space) == as_of(2)
    assert commits(rest, space)[-2:] == [ALL, ALL]


def test_an_outcome_that_stays_unknown_is_said_and_found_later(mart, rest, space):
    of = mart(**tables(space))
    take(of, 1)
    rest.fault(TOGETHER, 502, times=9, text="upstream is gone")
    id_ = of.finalize(**dict.fromkeys(tables(space), values(2)))
    with pytest.raises(
        SinkUnavailableError, match=r"did not report whether .*502.*it first reads the table, so nothing is committed"
    ):
        of.coordinator.notify(id_)
    rest.say(faults=[])
    of.coordinator.notify(id_)
    assert shown(rest, space) == as_of(2)


@pytest.mark.parametrize(
    ("path", "status", "kind", "text"),
    [
        (
            ALONE,
            401,
            SinkUnavailableError,
            "does not accept the credentials of this process .*PYICEBERG_CATALOG__LAKE__TOKEN",
        ),
        (
            TOGETHER,
            403,
            RowsRefusedError,
            "does not allow that .*Have the right to read, make and change that table granted",
        ),
        (ALONE, 503, SinkUnavailableError, "cannot be used .*Check that it runs, then repeat the step"),
    ],
)
def test_a_refusal_says_what_to_do_and_no_secret(mart, rest, space, monkeypatch, path, status, kind, text):
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", "very-secret")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__S3__SECRET_ACCESS_KEY", "s3cr3t")
    sinks = tables(space) if path == TOGETHER else {"one": tables(space)["one"]}
    of = mart(**sinks)
    of.take(**dict.fromkeys(sinks, values(1)))
    rest.fault(path, status, times=9, text="Bearer eyJhbGciOi.abc or very-secret of s3cr3t is not good")
    id_ = of.finalize(**dict.fromkeys(sinks, values(2)))
    with pytest.raises(kind, match=text) as raised:
        of.coordinator.notify(id_)
    assert ": *** or *** of *** is not good)" in str(raised.value)
    assert not [secret for secret in ("very-secret", "eyJ", "s3cr3t") if secret in str(raised.value)]
    rest.say(faults=[])
    of.coordinator.notify(id_)
    assert rest.values(f"{space}.one") == [1, 2]
    assert not [path for path in files_below(of.sinks["one"].root) if b"very-secret" in content(of, path)]


def content(of, path):
    return (Path(of.sinks["one"].root) / path).read_bytes()


def test_a_token_that_has_expired_is_replaced_without_a_new_process(mart, rest, space, monkeypatch):
    of = mart(one=tables(space)["one"])
    of.take(one=values(1))
    id_ = of.finalize(one=values(2))
    rest.say(token="second")
    with pytest.raises(SinkUnavailableError, match="does not accept the credentials"):
        of.coordinator.notify(id_)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", "second")
    of.coordinator.notify(id_)
    rest.say(token=None)
    assert rest.values(f"{space}.one") == [1, 2]


def test_a_server_that_is_away_is_waited_for(mart, rest, space):
    of = mart(**tables(space))
    take(of, 1)
    id_ = of.finalize(**dict.fromkeys(tables(space), values(2)))
    rest.stop()
    with pytest.raises(
        SinkUnavailableError, match=r"The catalog 'lake' of table \S+ cannot be used .*Check that it runs"
    ):
        of.coordinator.notify(id_)
    close_catalogs()
    with pytest.raises(SinkUnavailableError, match="cannot be used"):
        of.coordinator.notify(id_)
    rest.start()
    of.coordinator.notify(id_)
    assert shown(rest, space) == as_of(2)


def test_a_source_reads_what_was_appended_and_names_a_catalog_that_refuses(mart, rest, space):
    of = mart(one=tables(space)["one"])
    of.take(one=values(1))
    source = IcebergSource(f"{space}.one", "lake", schema="v BIGINT")
    first, position = source.poll(0, None, SourceContext(None, 1, "x"))
    of.take(one=values(2))
    then, _ = source.poll(0, position, SourceContext(None, 2, "x"))
    schema = pa.schema([("v", pa.int64())])
    for segment, number in ((first, 1), (then, 2)):
        batches = source.arrow_reader([segment]).read(schema)
        assert pa.Table.from_batches(batches, schema).to_pylist() == [{"v": number}]
    rest.say(token="other")
    with pytest.raises(SourceUnavailableError, match=r"cannot be read\. .*does not accept the credentials .*__TOKEN"):
        source.poll(0, position, SourceContext(None, 2, "x"))
