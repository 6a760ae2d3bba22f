"""The eight invariants under any order of steps, on the in-memory store and on real Postgres."""

import pytest
from checkpoint_machine import CheckpointMachine
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from memory_store import MemoryCheckpointStore
from region_machine import RegionMachine
from sizes import sizes

from tidegate.ports import CheckpointStore

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@sizes("examples", sample=100, whole=200)
@pytest.mark.parametrize("machine", [CheckpointMachine, RegionMachine])
def test_the_invariants_hold_in_any_order_of_steps(machine, examples):
    class OnMemory(machine):
        def new_store(self) -> CheckpointStore:
            return MemoryCheckpointStore()

    run_state_machine_as_test(
        OnMemory,
        settings=settings(max_examples=examples, stateful_step_count=50, deadline=None, suppress_health_check=CALM),
    )


@pytest.mark.parametrize("machine", [CheckpointMachine, RegionMachine])
def test_the_invariants_hold_on_postgres(machine, store):
    class OnPostgres(machine):
        def new_store(self) -> CheckpointStore:
            return store

    run_state_machine_as_test(
        OnPostgres,
        settings=settings(max_examples=10, stateful_step_count=40, deadline=None, suppress_health_check=CALM),
    )
