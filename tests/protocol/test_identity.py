"""When a definition is the pipeline that is recorded under its name."""

import pytest
from cases import for_each
from records import completed, record

from tidegate.protocol.facts.errors import PipelineIdentityError, PipelineStatusError
from tidegate.protocol.recovery.identity import Endpoint, Role, find_moved, find_new, require_at_rest, require_same


def source(name, place="landing", type_="FileSource"):
    return Endpoint(Role.SOURCE, name, type_, place)


def sink(name, place):
    return Endpoint(Role.SINK, name, "ParquetSink", place)


RECORDED = [source("flights"), sink("out", "tables/out")]


@for_each(
    "defined",
    [
        RECORDED,
        [],
        RECORDED[:1],
        [*RECORDED, source("weather", "elsewhere")],
        [source("flights"), sink("flights", "tables/flights")],  # a sink may have a source's name
    ],
)
def test_what_stays_is_added_or_removed_passes(defined):
    require_same("p", RECORDED, defined)
    assert find_moved(RECORDED, defined) == []


def test_only_what_was_never_recorded_is_new():
    added = source("weather", "elsewhere")
    assert find_new(RECORDED, [*RECORDED, added]) == [added]
    assert find_new([], RECORDED) == RECORDED
    assert find_new(RECORDED, [sink("out", "moved")]) == []


@for_each(
    ("defined", "words"),
    [
        (
            source("flights", "/data/other"),
            "source 'flights' is FileSource at landing, and here it is FileSource at /data",
        ),
        (
            source("flights", type_="KafkaSource"),
            "source 'flights' is FileSource at landing, and here it is KafkaSource",
        ),
        (
            sink("out", "tables/other"),
            "sink 'out' is ParquetSink at tables/out, and here it is ParquetSink at tables/other",
        ),
        (source("flights", ""), "and here it is FileSource. Nothing was started"),
    ],
)
def test_what_lies_elsewhere_is_refused_with_what_differs_and_what_to_do(defined, words):
    with pytest.raises(PipelineIdentityError) as refused:
        require_same("p", RECORDED, [defined])
    assert words in str(refused.value)
    assert "`tidegate relocate p`" in str(refused.value)
    assert "Nothing was started" in str(refused.value)


def test_all_that_differs_is_named():
    with pytest.raises(PipelineIdentityError, match=r"source 'flights' .*; sink 'out' "):
        require_same("p", RECORDED, [source("flights", "a"), sink("out", "b")])


def test_nothing_is_relocated_while_anything_may_be_staged():
    require_at_rest("p", [], [completed(1)])
    with pytest.raises(PipelineStatusError, match="while checkpoint 3 is in progress"):
        require_at_rest("p", [record(3)], [])
    with pytest.raises(PipelineStatusError, match="checkpoint 2 has completed, and its rows are staged"):
        require_at_rest("p", [], [completed(1), completed(2, notified_at=None)])
