"""`tidegate state` on a real database and real files: what it shows, and how it refuses."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from commands import CommandHere, environment_of
from state_operator import AT, OPERATOR, PIPELINE, Operator, Workshop

from tidegate.cli.exit_codes import ExitCode
from tidegate.pipeline.aggregates import avg, count
from tidegate.state.layout import StateLayout

ARRIVED = pa.schema([("carrier", pa.string()), ("delay", pa.int64())])
LAYOUT = StateLayout.of_aggregates(ARRIVED, ["carrier"], [("flights", count()), ("delay", avg("delay"))])


@pytest.fixture
def here(tmp_path: Path, postgres_url: str) -> CommandHere:
    return CommandHere(tmp_path, environment_of(tmp_path, postgres_url))


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(Workshop(tmp_path, tmp_path / ".tidegate" / "checkpoints"), LAYOUT)


@pytest.fixture
def three(operator: Operator, store) -> None:
    """Three checkpoints: the state of the first is not kept any more, and before the third the operator is rescaled."""
    operator.aggregate(pa.table({"carrier": ["AA", "UA"], "delay": [10, 20]}, ARRIVED))
    operator.record(store)
    operator.aggregate(pa.table({"carrier": ["AA", None], "delay": [30, -5]}, ARRIVED))
    operator.record(store, subsume=[1])
    operator.aggregate(pa.table({"carrier": ["AA", "[B6\x1b[2J"], "delay": [20, 0]}, ARRIVED), parallelism=3)
    operator.record(store)


def shown(here, *arguments):
    ended = here("state", PIPELINE, OPERATOR, *arguments, "-o", "json")
    assert ended.returncode == ExitCode.OK, ended.stderr
    return json.loads(ended.stdout)


AA = {"carrier": "AA", "flights": 3, "delay": 20.0}
NULL = {"carrier": None, "flights": 1, "delay": -5.0}


@pytest.mark.usefixtures("three")
def test_the_first_rows_and_their_number(here) -> None:
    found = shown(here)
    assert found["checkpoint"] == 3
    assert found["num_rows"] == 4
    assert AA in found["rows"]
    assert NULL in found["rows"]
    assert shown(here, "--limit", "1") == found | {"rows": found["rows"][:1]}
    assert shown(here, "--limit", "0") == found | {"rows": []}
    table = here("state", PIPELINE, OPERATOR, "--limit", "2").stdout
    assert "carrier_delays at checkpoint 3: 4 rows, of which these are the first 2." in table
    assert "\x1b" not in here("state", PIPELINE, OPERATOR).stdout


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("key", "row"), [("AA", AA), ('{"carrier": "AA"}', AA), ("[null]", NULL), ("XX", None), ("null", None)]
)
def test_the_row_of_a_key(here, key, row) -> None:
    found = shown(here, "--key", key)
    assert (found["num_rows"], found["rows"]) == (0, []) if row is None else (1, [row])
    before = shown(here, "--key", key, "--checkpoint", "2")
    assert before["checkpoint"] == 2
    assert "carrier_delays at checkpoint 3: 0 rows." in here("state", PIPELINE, OPERATOR, "--key", "XX").stdout


@pytest.mark.usefixtures("three")
def test_the_history_of_a_key(here) -> None:
    found = shown(here, "--key", "AA", "--history")["history"]
    at = round(AT.timestamp() * 1000)
    assert found == [
        {"checkpoint": 3, "completed_timestamp": at, "row": AA},
        {"checkpoint": 2, "completed_timestamp": at, "row": AA | {"flights": 2}},
    ]
    assert [each["row"] for each in shown(here, "--key", "[B6\x1b[2J", "--history")["history"]][1] is None
    table = here("state", PIPELINE, OPERATOR, "--key", "[B6\x1b[2J", "--history").stdout
    assert "no row" in table
    assert "2026-01-01 00:00:00" in table
    assert "Checkpoint" in here("state", PIPELINE, OPERATOR, "--key", "XX", "--history").stdout


def test_before_an_operator_had_state_a_key_had_no_row(here, operator, store) -> None:
    for rows in ({"carrier": [], "delay": []}, {"carrier": ["AA"], "delay": [20]}):
        operator.aggregate(pa.table(rows, ARRIVED))
        operator.record(store)
    assert [each["row"] for each in shown(here, "--key", "AA", "--history")["history"]] == [AA | {"flights": 1}, None]
    assert shown(here, "--diff", "1", "2")["num_changes"] == 1


@pytest.mark.usefixtures("three")
def test_the_difference_of_two_checkpoints_as_a_user_sees_it(here) -> None:
    """UA did not change."""
    found = shown(here, "--diff", "2", "3")
    assert (found["changes_since"], found["checkpoint"], found["num_changes"]) == (2, 3, 2)
    assert AA | {"_change": "upsert"} in found["changes"]
    back = shown(here, "--diff", "3", "2")["changes"]
    assert {"carrier": "[B6\x1b[2J", "flights": None, "delay": None, "_change": "delete"} in back
    assert len(shown(here, "--diff", "3", "2", "--key", "AA")["changes"]) == 1
    assert shown(here, "--diff", "3", "3")["changes"] == []
    assert (
        "carrier_delays from checkpoint 2 to 3: 2 changes"
        in here("state", PIPELINE, OPERATOR, "--diff", "2", "3").stdout
    )


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["flight", OPERATOR], ExitCode.NOT_FOUND, "Its pipelines: flight_delays"),
        (["nowhere:pipeline", OPERATOR], ExitCode.NOT_FOUND, "cannot be loaded"),
        ([PIPELINE, "carriers"], ExitCode.NOT_FOUND, "Those with keyed state: carrier_delays"),
        ([PIPELINE, "source"], ExitCode.NOT_FOUND, "has no keyed state at checkpoint 3"),
        ([PIPELINE, OPERATOR, "--checkpoint", "1"], ExitCode.NOT_FOUND, "Those whose state is kept: 2, 3"),
        ([PIPELINE, OPERATOR, "--checkpoint", "9"], ExitCode.NOT_FOUND, "has no checkpoint 9"),
        ([PIPELINE, OPERATOR, "--savepoint", "audit"], ExitCode.NOT_FOUND, "has no savepoint 'audit' in this database"),
        ([PIPELINE, OPERATOR, "--savepoint", "a", "--checkpoint", "2"], ExitCode.USAGE, "a savepoint, not both"),
        ([PIPELINE, OPERATOR, "--diff", "1", "3"], ExitCode.NOT_FOUND, "Those whose state is kept: 2, 3"),
        ([PIPELINE, OPERATOR, "--key", "[1]"], ExitCode.USAGE, "1 cannot be a string, and its key is (carrier string)"),
        ([PIPELINE, OPERATOR, "--key", '{"day": 1}'], ExitCode.USAGE, "day was given, and its key is (carrier string)"),
        ([PIPELINE, OPERATOR, "--history"], ExitCode.USAGE, "needs --key and covers all checkpoints"),
        ([PIPELINE, OPERATOR, "--key", "AA", "--history", "--checkpoint", "2"], ExitCode.USAGE, "Leave --checkpoint"),
        ([PIPELINE, OPERATOR, "--diff", "2", "3", "--checkpoint", "2"], ExitCode.USAGE, "and --savepoint out"),
        ([PIPELINE, OPERATOR, "--diff", "2"], ExitCode.USAGE, "requires 2 arguments"),
        ([PIPELINE], ExitCode.USAGE, "Missing argument"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_paragraph_that_says_what_there_is(here, arguments, code, words) -> None:
    ended = here("state", *arguments)
    assert ended.returncode == code, ended.stderr
    said = " ".join(ended.stderr.replace("│", " ").split())
    assert words in said
    assert "Traceback" not in ended.stderr


@pytest.mark.usefixtures("three")
def test_a_lost_file_is_an_error_that_names_it(here, operator) -> None:
    for path in operator.workshop.written():
        path.unlink()
    ended = here("state", PIPELINE, OPERATOR)
    assert ended.returncode == ExitCode.ABORTED
    assert "is missing from checkpoint storage" in " ".join(ended.stderr.split())
