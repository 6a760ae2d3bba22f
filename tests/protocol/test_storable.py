"""What is done to text before it is recorded, and what is left as it is."""

import json

import pytest
from cases import for_each

from tidegate.protocol.facts.errors import IllegalRequestError
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.steps.stopping import LONGEST_REQUEST_ID, require_legal
from tidegate.protocol.text.storable import LONGEST_TEXT, storable_json, storable_text


@for_each("text", ["", "plain", "Zürich 東京 \U0001f600", "two\nlines\tand \x1b[31m", "x" * LONGEST_TEXT])
def test_text_that_can_be_stored_stays_as_it_is(text):
    assert storable_text(text) == text


@for_each("character", [0, 0xD800, 0xDFFF])
def test_what_cannot_be_stored_is_replaced(character):
    assert storable_text(f"a{chr(character)}b") == "a\ufffdb"


def test_a_long_text_keeps_its_beginning_and_its_end():
    kept = storable_text("begin" + "x" * 1_000_000 + "end")
    assert kept.startswith("begin")
    assert kept.endswith("end")
    assert "990008 characters are left out" in kept
    assert len(kept) < LONGEST_TEXT + 100


def test_json_is_made_storable_at_any_depth():
    value = {"a\0": ["\ud800", {"n": float("nan")}, ("x", -float("inf"))], "kept": [1, 2.5, None, True]}
    assert storable_json(value) == {"a\ufffd": ["\ufffd", {"n": "nan"}, ["x", "-inf"]], "kept": [1, 2.5, None, True]}
    json.dumps(storable_json(value), allow_nan=False)


@for_each("request_id", ["", "a\0", "a\nb", "\x1b[2J", "\udc80", "x" * (LONGEST_REQUEST_ID + 1)])
def test_a_request_has_an_id_that_can_be_recorded_and_shown(request_id):
    with pytest.raises(IllegalRequestError, match=r"cannot name a request.*Nothing was triggered"):
        require_legal(request_id, CheckpointKind.CHECKPOINT, False)


@for_each("request_id", ["manual__2026-11-22T01:00:00+00:00_x", "by hand", "é" * LONGEST_REQUEST_ID])
def test_ids_as_airflow_and_people_write_them_are_fine(request_id):
    require_legal(request_id, CheckpointKind.CHECKPOINT, False)
