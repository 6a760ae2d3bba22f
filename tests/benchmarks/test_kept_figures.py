"""What has become slower is told from what varies by itself."""

import json
from pathlib import Path
from typing import Any

import pytest
from cases import for_each

STEADY = [1.00, 1.01, 0.99, 1.02, 0.98, 1.00, 1.01, 0.99]
MACHINE = {"cores": "2", "processor": "a processor", "memory": "8 GiB"}
IDLE = {"began": 0.1, "ended": 1.2, "others": 0.01, "others_worst": 0.02}


def of(values: list[float], side: str = "tidegate") -> dict[str, Any]:
    return {"100 k keys": {side: {"seconds": values}}}


@for_each(
    ("before", "now", "is_slower"),
    [
        (STEADY, STEADY, False),
        (STEADY, [value * 1.05 for value in STEADY], True),
        (STEADY, [value * 0.5 for value in STEADY], False),
        # One slow repetition, such as a compaction, is none of the middle half.
        (STEADY, [*STEADY, 9.0], False),
        # As much slower, of what varies more.
        ([0.8, 0.9, 1.0, 1.1, 1.2, 1.3], [0.85, 0.95, 1.05, 1.15, 1.25, 1.35], False),
        # Of few, all count.
        ([1.0, 1.1, 1.2], [1.15, 1.3, 1.4], False),
        ([1.0, 1.1, 1.2], [1.25, 1.3, 1.4], True),
        # One or two say nothing about how much a figure varies.
        ([1.0], [5.0], False),
        (STEADY, [5.0, 5.0], False),
    ],
)
def test_slower_by_more_than_the_repetitions_vary(before: list[float], now: list[float], is_slower: bool) -> None:
    from kept_figures import slower

    assert bool(slower(of(before), of(now))) is is_slower


def test_only_what_both_have_is_compared() -> None:
    from kept_figures import slower

    slow = [10 * value for value in STEADY]
    assert slower(of(STEADY), {"another": {"tidegate": {"seconds": slow}}}) == []
    assert slower(of(STEADY), of(slow, side="streaming")) == []
    assert slower(of(STEADY), {"100 k keys": {"tidegate": {"processors": slow}}}) == []


def test_the_figures_are_told() -> None:
    from kept_figures import slower

    [found] = slower(of(STEADY), of([2 * value for value in STEADY]))
    assert str(found) == "100 k keys, tidegate, seconds: 2.00 times as much, 2 (1.98–2.02) instead of 1 (0.99–1.01)"


def kept(policy: str = "ten epochs", values: list[float] = STEADY, **machine: str) -> dict[str, Any]:
    from kept_figures import document

    return document({**MACHINE, **machine}, IDLE, policy, of(values))


@for_each(
    ("before", "said"),
    [
        (None, "No figures of before are kept"),
        ({"processor": "another"}, "another machine (processor)"),
        ({"policy": "three epochs"}, "measured otherwise (three epochs)"),
        ({}, "Nothing has become slower"),
        ({"values": [0.5 * value for value in STEADY]}, "Slower by more than its repetitions vary"),
    ],
)
def test_figures_of_other_machines_and_of_other_measurements_are_not_compared(before: Any, said: str) -> None:
    from kept_figures import compared

    assert said in compared(None if before is None else kept(**before), kept())[0]


def test_what_is_kept_is_what_the_next_run_compares_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import kept_figures

    monkeypatch.setattr(kept_figures, "FIGURES", tmp_path / "figures")
    assert kept_figures.read("bench") is None
    said = kept_figures.compare_and_keep("bench", kept(), keep=True)
    assert said[-1] == f"Kept in {tmp_path / 'figures' / 'bench.json'}."
    found = kept_figures.read("bench")
    assert found is not None
    assert found["series"] == of(STEADY)
    assert kept_figures.compare_and_keep("bench", kept(values=[9.0] * 8), keep=False)[1].startswith("Slower")
    assert kept_figures.read("bench") == found
    text = (tmp_path / "figures" / "bench.json").read_text()
    assert json.loads(text) == found
    assert sum("100 k keys" in line and "seconds" in line for line in text.splitlines()) == 1
