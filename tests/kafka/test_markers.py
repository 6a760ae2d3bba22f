"""What a topic has of a sink, as its marker says."""

from tidegate.kafka.markers import Marker

NEW = Marker("shop", "orders", "here")


def committed(marker: Marker, *checkpoint_ids: int) -> Marker:
    for number, checkpoint_id in enumerate(checkpoint_ids, 1):
        marker = marker.with_commit(checkpoint_id, number, 10 * checkpoint_id, "an id")
    return marker


def had(marker: Marker, most: int = 20) -> list[int]:
    return [checkpoint_id for checkpoint_id in range(1, most) if marker.has(checkpoint_id)]


def test_a_checkpoint_that_was_passed_over_is_committed_later() -> None:
    """A restore left it behind before the sinks were notified of it, and another one led back to it."""
    passed_over = committed(NEW, 3, 5)
    assert had(passed_over) == [3, 5]
    assert had(committed(passed_over, 4)) == [3, 4, 5]
    assert had(committed(passed_over, 9, 1, 7)) == [1, 3, 5, 7, 9]
    assert committed(passed_over, 4).checkpoint_id == 5, "numbers are given out behind the newest one"


def test_a_marker_says_the_same_when_it_is_read_again() -> None:
    marker = committed(NEW, 3, 5, 4, 9)
    assert Marker.parse(marker.to_json()) == marker
    assert committed(marker, 9).passed == marker.passed == ((1, 2), (6, 8))
    assert (marker.attempt, marker.rows, marker.topic_id) == (4, 90, "an id")


def test_a_marker_stays_small_and_calls_nothing_committed_that_is_not() -> None:
    marker = committed(NEW, *range(2, 4002, 2))
    assert len(marker.passed) == 500
    assert had(marker, 4001)[-500:] == [*range(3002, 4002, 2)]
    assert not any(marker.has(each) for each in range(1, 4001, 2))
