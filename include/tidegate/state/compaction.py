"""Compaction: which runs to merge into one, and the merge. Off the critical path; the merged runs stay unchanged.

A run is merged with the newer ones once these together have grown to its size, so each row is rewritten about as often
as the state can double. The number of runs must stay small, because every lookup visits all of them.
"""

from collections.abc import Sequence
from dataclasses import replace

from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.schema.expiry import BY_RUNS_ALONE, Moment, may_have_alive
from tidegate.state.expiring import Span, decide_expiry
from tidegate.state.runs import run_schema, writing_run
from tidegate.state.slices import merged_slices
from tidegate.state.spec import SubtaskSpec

# Fewer bytes are rewritten than with 4 and 8, for one more run per lookup on average.
MIN_RUNS = 8
MAX_RUNS = 16
SLACK = 1.25  # runs of equal epochs differ a little


def choose_runs(rows: Sequence[int]) -> range | None:
    """Return the neighbouring runs to merge, given the rows of each, oldest first; None if a merge is not worth it.

    Beginning with the newest, an older run joins while it is not much larger than all newer ones together. These are
    merged if they are at least `MIN_RUNS`. Otherwise, above `MAX_RUNS`, the cheapest neighbours that bring the number
    down to it are merged.
    """
    start, total = len(rows), 0
    while start and (start == len(rows) or rows[start - 1] <= total * SLACK):
        start -= 1
        total += rows[start]
    if len(rows) - start >= MIN_RUNS:
        return range(start, len(rows))
    if len(rows) <= MAX_RUNS:
        return None
    width = len(rows) - MAX_RUNS + 1
    cheapest = min(range(MAX_RUNS), key=lambda at: sum(rows[at : at + width]))
    return range(cheapest, cheapest + width)


def plan_compaction(spec: SubtaskSpec) -> tuple[StateHandle, ...]:
    """Return the runs of the subtask to merge, in their order; none if a merge is not worth it."""
    chosen = choose_runs([_rows_of_subtask(spec, run) for run in spec.runs])
    return tuple(spec.runs[at] for at in chosen) if chosen else ()


def _rows_of_subtask(spec: SubtaskSpec, run: StateHandle) -> int:
    """Estimate the rows of a run in the subtask. After a rescale a subtask sees part of a run, and hashes are spread
    evenly. A run of expired rows counts as empty, because a merge removes them and costs little."""
    if not may_have_alive(run, spec.horizon):
        return 0
    low, high = spec.hashes_in(run)
    span = int(run.details["max_hash"], 16) - int(run.details["min_hash"], 16) + 1
    return int(run.rows * max(0, high - low + 1) / span)


def compact(spec: SubtaskSpec, chosen: Sequence[StateHandle]) -> StateHandle:
    """Merge neighbouring runs of `spec.runs` into one at `spec.prefix`, in bounded memory.

    Tombstones and expired rows are dropped if the merged runs begin with the subtask's oldest, because they hide
    nothing older. Otherwise expired rows become tombstones. Expiry is decided by the merged runs alone: a restore may
    lead to a checkpoint that has these and none of the newer ones.
    """
    spec = replace(spec, horizon=decide_expiry(spec.layout, chosen, Moment(spec.checkpoint_id, BY_RUNS_ALONE)).horizon)
    may_be_gone = spec.layout.ttl is not None or bool(spec.layout.expired)
    may_be_gone = may_be_gone or any(run.details["tombstones"] for run in chosen)
    tombstones = chosen[0] != spec.runs[0] and may_be_gone
    schema = run_schema(spec.layout, tombstones)
    span = Span.merging(spec, chosen)
    with writing_run(spec, schema, span) as writer:
        for table in merged_slices(spec, chosen, schema, keep_tombstones=tombstones, span=span):
            writer.write(table)
    return writer.handle
