"""What others use of the processors is told from what is measured."""

import subprocess
import sys

import pytest
from cases import for_each

#: A hundred ticks a second, two processors.
CORES, TICKS = 2, 100


@for_each(
    ("samples", "overall", "worst"),
    [
        # What is measured uses one of the two, and nobody else is there.
        ([(0.0, 0, 0), (10.0, 1000, 1000)], 0.0, 0.0),
        # Another uses the second one.
        ([(0.0, 500, 100), (10.0, 2500, 1100)], 0.5, 0.5),
        # Only in one minute of three.
        ([(0.0, 0, 0), (60.0, 6000, 0), (120.0, 6000, 0), (180.0, 6000, 0)], 1 / 6, 0.5),
        # What is read one after the other may be less than nothing.
        ([(0.0, 0, 0), (10.0, 100, 110)], 0.0, 0.0),
        # A rest of a few seconds is no minute of its own.
        ([(0.0, 0, 0), (60.0, 1200, 0), (61.0, 1400, 0)], 1400 / 12200, 1400 / 12200),
    ],
)
def test_the_share_of_others(samples: list[tuple[float, int, int]], overall: float, worst: float) -> None:
    from machine_load import others

    assert others(samples, CORES, TICKS) == (pytest.approx(overall), pytest.approx(worst))


def test_a_busy_machine_is_said() -> None:
    from machine_load import sentence

    idle = {"began": 0.1, "ended": 1.2, "others": 0.02, "others_worst": 0.3}
    assert sentence(idle) == (
        "load average 0.1 when started and 1.2 at the end; other programs used 2% of the processors, 30% in the worst "
        "minute"
    )
    assert sentence({**idle, "others": 0.2}).endswith("the machine was busy, so look at processor time")


def test_what_a_descendant_has_used_is_no_load_of_others_after_its_end() -> None:
    from machine_load import Load

    spin = "import time\nwhile time.process_time() < 1.5: pass"
    with Load() as load, subprocess.Popen([sys.executable, "-c", spin]) as process:
        pass
    [ticks] = [ticks for (number, _), ticks in load._ticks.items() if number == process.pid]
    assert ticks > 0
