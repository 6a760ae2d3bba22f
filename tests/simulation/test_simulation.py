"""Whatever goes wrong, in whatever order: every row counts once, and the eight invariants hold at every commit."""

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
from simulator.__main__ import run_seed
from simulator.comparison import Comparison
from simulator.dataflow import Dataflow
from simulator.running import Running
from simulator.scheduler import Violation
from simulator.temper import LAST, LATER, WORST, Temper
from simulator.world import World

SEEDS = 25
BLOCK = 25
HERE = Path(__file__).parent


@cache
def scheduled(seed):
    """What troubles a scheduled pipeline met, how its checkpoints ended, and how often files were taken anew."""
    world = World(seed).run()
    records = world.store.state.checkpoints.values()
    ends = Counter(record.failure_reason and record.failure_reason.name for record in records)
    return world.met, ends, world.corrections.replaced


@cache
def continuous(seed):
    """What troubles a continuous run met, and how many of its checkpoints were verified."""
    run = Running(seed).run()
    return run.met, run.verified


@cache
def around_the_gates(seed):
    """Whether it is exactly once, and how many rows were shown more often than there are ways to them."""
    flow, repeated = Dataflow(seed).run(), 0
    for operator in flow.operators:
        ways = flow.ways_to(operator.name)
        repeated += sum(times > ways[source] for (source, _), times in flow.shown(operator).items())
    return flow.exactly_once, repeated


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_whatever_goes_wrong_the_outcome_is_that_of_a_plain_execution(first):
    """The other tests look at the same runs."""
    for seed in range(first, first + BLOCK):
        try:
            scheduled(seed), continuous(seed), around_the_gates(seed)
        except (Violation, Exception):
            pytest.fail(run_seed(seed) or f"seed {seed} went wrong once, and not again")


def test_every_kind_of_trouble_is_met():
    met, ends, replaced = Counter(), Counter(), 0
    for seed in (*range(15, 65), 122):  # the last one meets a rejection, which is rare
        troubles, ended, taken_anew = scheduled(seed)
        met += troubles
        ends += ended
        replaced += taken_anew
    assert met.pop("merge of partitions") > 1
    assert set(met) == {*WORST, *LATER, *LAST} == {field.name for field in fields(Temper)} - {"stickiness"}
    assert min(met.values()) > 1, met
    assert ends.keys() >= {
        None,
        "CHECKPOINT_EXPIRED",
        "VALIDATION_FAILED",
        "TASK_FAILURE",
        "FINALIZE_CHECKPOINT_FAILURE",
    }
    assert ends[None] > 200, "hardly anything completes"
    assert replaced > 2, "hardly any corrected file is taken anew"


def test_at_least_once_shows_some_rows_twice_and_exactly_once_none():
    repeated = Counter()
    for seed in range(150):
        exactly_once, more = around_the_gates(seed)
        repeated[exactly_once] += more
    assert repeated[True] == 0
    assert repeated[False] > 0


def test_a_snapshot_that_is_due_after_a_newer_one_is_not_taken():
    """Sources that are asked out of order, and all but one ended: the gate lets both through, and the older snapshot
    would hold rows that only the newer one commits. The steps of a snapshot drop it (protocol.md section 12)."""
    exactly_once, _ = around_the_gates(161621)
    assert not exactly_once


@pytest.mark.parametrize("seed", [4500339, 4501263])
def test_a_clock_that_is_set_back_gives_no_row_of_state_another_life(seed):
    """The region's time stands still until the clock has caught up, within an attempt and after the next one began."""
    continuous(seed)


def test_a_clock_may_be_set_back_between_two_reads_of_one_step():
    """What is over by the first is deleted, whatever the second says."""
    scheduled(5201032)


def test_what_a_dead_import_has_staged_is_deleted_although_the_table_was_another_ones_meanwhile():
    scheduled(5200155)


def test_a_table_of_files_can_go_back_to_a_checkpoint_that_its_sink_had_finished_before():
    scheduled(74)


def test_a_row_with_the_value_0_is_none_that_readers_of_upserts_see():
    continuous(5200041)


def trace_of(seed, hash_seed):
    script = f"from simulator.world import World; print(*World({seed}, trace=None).run().scheduler.trace, sep='\\n')"
    return in_a_process("-c", script, PYTHONHASHSEED=hash_seed)


def in_a_process(*arguments, **environment):
    """What a new interpreter prints, of which nothing is known to what other tests did to this one."""
    path = os.pathsep.join([str(HERE), str(HERE.parent / "support"), *filter(None, [os.environ.get("PYTHONPATH")])])
    ran = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_seed_gives_the_same_run_in_every_process():
    first = trace_of(5, "1")
    assert first.count("\n") > 200
    assert first == trace_of(5, "2")


def test_a_seed_gives_the_same_continuous_run_in_every_process():
    script = (
        "from simulator.running import Running; run = Running(5).run(); print(*run.trace, *run.disk.files, sep='\\n')"
    )
    first = in_a_process("-c", script, PYTHONHASHSEED="1")
    assert first.count("\n") > 40
    assert first == in_a_process("-c", script, PYTHONHASHSEED="2")


def test_continuous_runs_meet_crashes_and_lost_connections_and_complete_all_the_same():
    met, verified = Counter(), 0
    for seed in range(20, 67):
        troubles, seen = continuous(seed)
        met += troubles
        verified += seen
    assert met.keys() >= {"crash", "StorageError", "StoreUnavailableError", "UnknownOutcomeError", "restore"}
    assert met["expired"] > 5, "hardly anything expires"
    assert verified > 150, "hardly anything completes"


def test_a_failure_says_who_did_what_and_how_to_see_it_again(monkeypatch):
    def finds_fault(self, id_, snapshots):
        raise Violation(f"checkpoint {id_} is not to somebody's taste")

    monkeypatch.setattr(Comparison, "completes", finds_fault)
    found = run_seed(3)
    assert found == run_seed(3)
    assert re.match(r"Seed 3: Violation: checkpoint \d+ is not to somebody's taste", found)
    assert "make simulate SEED=3" in found
    assert re.search(r"\d+\.\d{3}  .*has written simulated/chk-\d+/_metadata", found)
    assert "parallelism" in found
    assert found.count("\n") < 60


def test_replaying_one_seed_from_the_command_line():
    assert in_a_process("-m", "simulator", "--seed", "7") == "Seed 7: nothing went wrong.\n"
