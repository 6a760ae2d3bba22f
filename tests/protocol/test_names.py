"""Names that are joined from parts: their text, which is stored, and what is read back from it."""

import pytest
from cases import for_each

from tidegate.protocol.facts.names import (
    STORAGE,
    Target,
    TargetKind,
    operator_of_sink,
    requests_of_run,
    sink_of_operator,
    staged_by,
)


@for_each(
    ("target", "text"),
    [
        (Target(TargetKind.SINK, "carriers"), "sink:carriers"),
        (Target(TargetKind.STATE, "carriers"), "state:carriers"),
        (Target(TargetKind.CHECK, "totals"), "check:totals"),
    ],
)
def test_a_target_is_stored_as_text_and_read_back(target: Target, text: str) -> None:
    assert str(target) == text
    assert Target.parse(text) == target


@for_each("text", ["tables", "", "sinks:carriers", ":carriers"])
def test_what_is_no_target_is_not_taken_for_one(text: str) -> None:
    with pytest.raises(ValueError, match="not a valid TargetKind"):
        Target.parse(text)


def test_a_sink_may_have_the_name_of_the_operator_it_delivers() -> None:
    assert operator_of_sink("carriers") == "carriers-sink"
    assert sink_of_operator("carriers-sink") == "carriers"


def test_the_owner_of_a_file_is_the_storage_or_a_sink() -> None:
    assert (STORAGE, staged_by("carriers-sink")) == ("storage", "sink:carriers-sink")


def test_the_requests_of_a_dag_run_are_told_from_those_of_another() -> None:
    assert requests_of_run("flights", "manual__1") == "flights/manual__1/"
    assert not requests_of_run("flights", "manual__11").startswith(requests_of_run("flights", "manual__1"))
