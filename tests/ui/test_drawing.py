"""Where boxes and spans are drawn."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidegate.reading.checkpoint_answers import PhaseSpan
from tidegate.ui.drawing import HEIGHT, WIDTH, by_role, draw_graph, draw_spans

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds):
    return T0 + timedelta(seconds=seconds)


def columns(drawing):
    xs = sorted({box.x for box in drawing.boxes})
    return {box.key: xs.index(box.x) for box in drawing.boxes}


def test_what_reads_from_another_is_right_of_it():
    drawn = draw_graph({"sink": ["op"], "a": [], "op": ["a", "b"], "b": [], "raw": ["a"]})
    assert columns(drawn) == {"a": 0, "b": 0, "op": 1, "raw": 1, "sink": 2}
    assert len(drawn.edges) == 4


def test_a_graph_that_is_nonsense_is_drawn_all_the_same():
    drawn = draw_graph({"a": ["b", "gone"], "b": ["a"], "c": ["c"]})
    assert {box.key for box in drawn.boxes} == {"a", "b", "c"}
    assert draw_graph({}).boxes == ()


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.lists(st.text("abcdef", min_size=1, max_size=2))))
def test_boxes_never_overlap_and_lie_on_the_drawing(inputs):
    drawn = draw_graph(inputs)
    boxes = drawn.boxes
    assert {box.key for box in boxes} == set(inputs)
    for box in boxes:
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + WIDTH <= drawn.width
        assert box.y + HEIGHT <= drawn.height
    for one in boxes:
        for other in boxes:
            assert one is other or abs(one.x - other.x) >= WIDTH or abs(one.y - other.y) >= HEIGHT


def span_of(phase, began_at, ended_at):
    return PhaseSpan(phase=phase, began_at=began_at, ended_at=ended_at)


def test_spans_lie_next_to_each_other_as_long_as_they_took():
    phases = [
        span_of("TRIGGERED", at(0), at(8)),
        span_of("ACKNOWLEDGED", at(8), at(10)),
        span_of("VALIDATED", at(10), at(10)),
        span_of("COMPLETED", at(10), None),
    ]
    spans = draw_spans(phases, at(20))
    assert [span.duration for span in spans] == [8000, 2000, 0, 10000]
    assert [span.lasts for span in spans] == [False, False, False, True]
    assert spans[0].x == 0
    assert all(abs(a.x + a.width - b.x) < 1e-6 for a, b in pairwise(spans))
    assert abs(spans[-1].x + spans[-1].width - 1000) < 1e-6
    assert spans[2].width > 0
    assert spans[0].width > spans[1].width > spans[2].width


def test_what_is_only_a_moment_does_not_last():
    (span,) = draw_spans([span_of("FAILED", at(0), None)], at(100))
    assert (span.duration, span.lasts) == (0, False)


def test_without_inputs_sources_stand_before_operators_and_these_before_sinks():
    roles = {"out": "sink", "totals": "operator", "in": "source", "more": "source"}
    assert columns(draw_graph(by_role(roles))) == {"in": 0, "more": 0, "totals": 1, "out": 2}
    assert columns(draw_graph(by_role({"out": "sink", "in": "source"}))) == {"in": 0, "out": 1}
