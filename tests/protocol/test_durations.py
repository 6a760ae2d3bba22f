from datetime import timedelta

from cases import for_each
from hypothesis import given
from hypothesis import strategies as st

from tidegate.protocol.text.durations import duration, written


@given(st.integers(0, 10**12))
def test_what_is_written_is_read_back(milliseconds: int) -> None:
    value = timedelta(milliseconds=milliseconds)
    assert duration(written(value)) == value


@for_each(
    ("value", "text"),
    [
        (timedelta(minutes=30), "30 min"),
        (timedelta(hours=25, seconds=1), "1 d 1 h 1 s"),
        (timedelta(milliseconds=1500), "1 s 500 ms"),
        (timedelta(0), "0 s"),
    ],
)
def test_a_duration_is_written_as_a_person_would(value, text):
    assert written(value) == text
