"""What `make soak` calls growing, and which waits it counts."""

import random

import pytest
from cases import for_each

PARTS = 12


def grown(values: list[float]) -> list[str]:
    from soak import Slice, growing

    return growing([Slice(sizes={"files": value}) for value in values])


@for_each("level", [1.0, 300.0])
def test_a_figure_that_varies_does_not_grow(level: float) -> None:
    draw = random.Random(1)
    assert grown([level * draw.uniform(0.9, 1.1) for _ in range(PARTS)]) == []


def test_the_first_part_warms_up() -> None:
    assert grown([1.0, *[2.0] * (PARTS - 1)]) == []


def test_a_third_of_the_value_in_small_steps_is_noticed() -> None:
    """Seen once: from landed to visible took 0.84 s in the second part and 1.13 s in the last. Thirds did not tell."""
    assert grown([0.8, *[0.84 + 0.029 * step for step in range(PARTS - 1)]]) == [
        "files grows steadily: 0.84, in the end 1.13"
    ]


def test_small_steps_among_odd_parts_are_noticed() -> None:
    values = [1 + 0.04 * step for step in range(PARTS)]
    values[3], values[8] = 5.0, 0.1
    assert grown(values) == ["files grows steadily: 1.04, in the end 1.44"]


def test_a_step_in_the_last_third_is_noticed() -> None:
    assert grown([*[1.0] * 8, *[1.3] * 4]) == ["files grows: 1.00, then 1.30"]


def test_one_odd_part_is_no_growth() -> None:
    assert grown([*[1.0] * 10, 9.0, 1.0]) == []


def test_what_falls_does_not_grow() -> None:
    assert grown([2.0 - 0.1 * step for step in range(PARTS)]) == []


def test_figures_that_are_not_there_in_each_part() -> None:
    """Files are visible again after a kill only in parts with a kill."""
    from soak import Slice, growing

    assert growing([Slice(after_kills=[4.0]) if part in (1, 9) else Slice() for part in range(PARTS)]) == []


def test_files_that_met_a_kill_count_apart() -> None:
    from soak import Slice, Waits

    waits, into = Waits(), Slice()
    waits.land(0, at=1.0)
    waits.show(0, at=4.0, into=into)  # the first start
    assert (into.waits, into.after_kills) == ([], [3.0])
    waits.land(1, at=5.0)
    waits.kill(at=6.0)
    waits.show(1, at=6.1, into=into)  # became visible before the kill, and is seen after it
    waits.land(2, at=6.5)
    waits.land(3, at=20.0)
    waits.show(3, at=21.0, into=into)
    assert (into.waits, into.after_kills) == ([], [3.0, pytest.approx(1.1), 14.5, 1.0])
    waits.land(4, at=22.0)
    waits.show(4, at=22.75, into=into)
    assert into.waits == [0.75]
