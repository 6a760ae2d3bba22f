"""`CheckpointConfig`: the options of protocol.md section 21, the normalisations of section 2, and what is refused."""

import copy
import json
from dataclasses import FrozenInstanceError, fields, replace
from datetime import timedelta

import pytest
from cases import for_each

from tidegate import CheckpointConfig, CheckpointHistory
from tidegate.protocol.barriers.options import GateOptions
from tidegate.protocol.facts.errors import PipelineDefinitionError


@for_each(
    ("options", "words"),
    [
        ({"timeout": "soon"}, "'soon' is not a duration"),
        ({"timeout": "5 ms"}, "at least 10 ms"),
        ({"timeout": "10 min or so"}, "is not a duration"),
        ({"timeout": 600}, "'600' is not a duration"),
        ({"min_pause": timedelta(seconds=-1)}, "CheckpointConfig.min_pause must not be negative"),
        ({"retained_for": timedelta(seconds=-1)}, "CheckpointConfig.retained_for must not be negative"),
        ({"stale_after": "0 s"}, "stale_after must be longer than 0 s, or None"),
        ({"max_concurrent": 0}, "max_concurrent must be at least 1"),
        ({"max_concurrent": 2, "unaligned": True}, "CheckpointConfig.unaligned needs max_concurrent=1"),
        ({"history": "7 d"}, "history: .*CheckpointHistory.*'7 d'"),
        ({"tolerable_failed_checkpoints": -1}, "tolerable_failed_checkpoints must be 0 or more, or None"),
        ({"retention": "FOREVER"}, "retention must be one of NO_EXTERNALIZED_CHECKPOINTS, .*, not 'FOREVER'"),
        ({"mode": "AT_MOST_ONCE"}, "mode must be one of EXACTLY_ONCE, AT_LEAST_ONCE, not 'AT_MOST_ONCE'"),
        ({"interval": "9 ms"}, "interval must be at least 10 ms"),
        ({"interval": "0 s"}, "interval must be at least 10 ms, or None for no periodic ones"),
        ({"interval_during_backlog": "1 min"}, "has no effect without an interval"),
        ({"interval": "1 min", "interval_during_backlog": "59 s"}, "must be at least the interval, or '0 s'"),
        ({"mode": "AT_LEAST_ONCE", "unaligned": True}, "CheckpointConfig.unaligned needs mode EXACTLY_ONCE"),
        ({"aligned_checkpoint_timeout": timedelta(seconds=-1)}, "aligned_checkpoint_timeout must not be negative"),
        ({"alignment_limit": 0}, "CheckpointConfig.alignment_limit must be a positive number of bytes"),
        ({"alignment_limit": 1, "unaligned": True}, "CheckpointConfig.alignment_limit bounds"),
        ({"alignment_limit": 1, "mode": "AT_LEAST_ONCE"}, "CheckpointConfig.alignment_limit bounds"),
    ],
)
def test_a_wrong_option_says_what_is_accepted(options, words):
    with pytest.raises(PipelineDefinitionError, match=words):
        CheckpointConfig(**options)


@for_each(
    ("option", "value"),
    [
        ("timeout", None),
        ("timeout", 600),
        ("timeout", "99999999999999 d"),
        ("timeout", "9" * 5000 + " d"),
        ("min_pause", None),
        ("max_concurrent", None),
        ("max_concurrent", "1"),
        ("retained", "x"),
        ("retained", 1.0),
        ("retained", True),
        ("retention", None),
        ("tolerable_failed_checkpoints", "3"),
        ("validation_failures_count", "no"),
        ("allow_non_restored_state", 1),
        ("mode", []),
        ("interval", 10),
        ("unaligned", "yes"),
        ("aligned_checkpoint_timeout", None),
        ("alignment_limit", 4096.5),
        ("checkpoints_after_tasks_finish", None),
    ],
)
def test_a_value_of_a_wrong_type_is_named_with_its_option(option, value):
    with pytest.raises(PipelineDefinitionError, match=rf"^CheckpointConfig\.{option}\b") as caught:
        CheckpointConfig(**{option: value})
    assert str(value)[:20] in str(caught.value)


def test_an_option_that_does_not_exist_is_named_with_those_that_do():
    with pytest.raises(PipelineDefinitionError, match=r"has no option timout \(given: '5 min'\).* timeout, min_pause,"):
        CheckpointConfig(timout="5 min")


def test_several_mistakes_are_named_together():
    with pytest.raises(PipelineDefinitionError, match=r"retained: .*'x'.* CheckpointConfig.unaligned: .*'y'"):
        CheckpointConfig(retained="x", unaligned="y")


def test_options_are_a_value():
    config = CheckpointConfig("1 h", mode="AT_LEAST_ONCE", interval="10 s")
    same = CheckpointConfig(timeout=timedelta(hours=1), mode="AT_LEAST_ONCE", interval="10 s")
    assert config == same == copy.deepcopy(config) == replace(config)
    assert hash(config) == hash(same)
    assert config != CheckpointConfig()
    assert replace(config, retained=0).retained == 1
    with pytest.raises(PipelineDefinitionError, match="at least 10 ms"):
        replace(config, timeout="1 ms")
    for option in fields(config):
        with pytest.raises(FrozenInstanceError):
            setattr(config, option.name, None)


def test_what_is_left_out_has_its_default():
    assert CheckpointConfig().describe() == {
        "timeout": 600_000,
        "min_pause": 0,
        "max_concurrent": 1,
        "retained": 1,
        "retained_for": 0,
        "retention": "NO_EXTERNALIZED_CHECKPOINTS",
        "undo_within": 7 * 24 * 3_600_000,
        "tolerable_failed_checkpoints": None,
        "validation_failures_count": True,
        "allow_non_restored_state": False,
        "mode": "EXACTLY_ONCE",
        "interval": None,
        "interval_during_backlog": None,
        "unaligned": False,
        "aligned_checkpoint_timeout": 0,
        "alignment_limit": None,
        "checkpoints_after_tasks_finish": True,
        "stale_after": None,
        "history": {"checkpoints": 10_000, "age": 7 * 24 * 3_600_000},
    }


@for_each(
    ("options", "words"),
    [
        ({"checkpoints": 0}, "CheckpointHistory.checkpoints is 0, but must be a number of at least 1, or None"),
        ({"checkpoints": "many"}, "checkpoints is 'many'"),
        ({"checkpoints": True}, "checkpoints is True"),
        ({"age": "0 s"}, "CheckpointHistory.age is '0 s', but must be longer than 0 s, or None"),
        ({"age": "soon"}, "CheckpointHistory.age: 'soon' is not a duration"),
    ],
)
def test_a_wrong_history_says_what_is_accepted(options, words):
    with pytest.raises(PipelineDefinitionError, match=rf"^CheckpointConfig.history: .*{words}"):
        CheckpointHistory(**options)


def test_a_history_may_have_no_bound():
    assert CheckpointConfig(history=None).history_rule() is None
    rule = CheckpointConfig(history=CheckpointHistory(None, "30 d")).history_rule()
    assert (rule.number, rule.age) == (None, timedelta(days=30))
    described = CheckpointConfig(history=CheckpointHistory(5, age=None)).describe()
    assert described["history"] == {"checkpoints": 5, "age": None}


def test_options_are_normalised_as_flink_does():
    config = CheckpointConfig(timeout="1 h 30 min", min_pause="400 d", retained=-3)
    assert config.timeout.total_seconds() == 5400
    assert config.min_pause.days == 365
    assert config.retained == 1


def seconds(interval):
    return None if interval is None else interval.total_seconds()


@for_each(
    ("options", "interval", "during_backlog"),
    [
        ({}, None, None),
        ({"interval": "10 s"}, 10, 10),
        ({"interval": "10 ms"}, 0.01, 0.01),
        ({"interval": timedelta(seconds=10), "min_pause": "1 min"}, 60, 60),
        ({"interval": "10 s", "interval_during_backlog": "10 s"}, 10, 10),
        ({"interval": "10 s", "interval_during_backlog": "1 h"}, 10, 3600),
        ({"interval": "10 s", "interval_during_backlog": "0 s"}, 10, 0),
        ({"interval": "10 s", "interval_during_backlog": "30 s", "min_pause": "1 min"}, 60, 60),
        ({"interval": "10 s", "interval_during_backlog": "0 s", "min_pause": "1 min"}, 60, 0),
    ],
)
def test_section_2_the_effective_intervals_are_no_shorter_than_the_pause(options, interval, during_backlog):
    config = CheckpointConfig(**options)
    assert (seconds(config.interval), seconds(config.interval_during_backlog)) == (interval, during_backlog)


@for_each(
    ("options", "gate"),
    [
        ({}, GateOptions()),
        ({"mode": "AT_LEAST_ONCE"}, GateOptions(exactly_once=False)),
        ({"unaligned": True}, GateOptions(unaligned=True, aligned_timeout=0)),
        (
            {"unaligned": True, "aligned_checkpoint_timeout": "1 s 500 ms"},
            GateOptions(unaligned=True, aligned_timeout=1500),
        ),
        ({"aligned_checkpoint_timeout": "30 s"}, GateOptions(aligned_timeout=30_000)),
        ({"alignment_limit": 4096}, GateOptions(alignment_limit=4096)),
    ],
)
def test_the_gates_go_by_the_options(options, gate):
    assert CheckpointConfig(**options).gate_options() == gate


def test_the_options_are_described_as_they_hold():
    told = CheckpointConfig(interval="10 s", min_pause="1 min", mode="AT_LEAST_ONCE").describe()
    assert json.loads(json.dumps(told)) == told
    assert told["interval"] == told["interval_during_backlog"] == told["min_pause"] == 60_000
    assert (told["mode"], told["timeout"], told["unaligned"]) == ("AT_LEAST_ONCE", 600_000, False)
    assert told["alignment_limit"] is told["tolerable_failed_checkpoints"] is None
