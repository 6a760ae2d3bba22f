"""What must be kept is whole and can be restored, and nothing else stays, after any history."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from retention_machine import RetentionMachine
from sizes import sizes

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@sizes("histories", sample=50, whole=2000)
def test_every_point_that_is_kept_is_whole_and_nothing_else_stays(histories):
    run_state_machine_as_test(
        RetentionMachine,
        settings=settings(max_examples=histories, stateful_step_count=40, deadline=None, suppress_health_check=CALM),
    )
