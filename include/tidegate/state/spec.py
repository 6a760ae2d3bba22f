"""The specification of a subtask: the place of its state, its part of it, and its name in errors."""

from dataclasses import dataclass

from tidegate.protocol.facts.keygroups import KeyGroupRange, hashes_of
from tidegate.protocol.facts.records import StateHandle
from tidegate.state.layout import StateLayout


@dataclass(frozen=True, slots=True)
class SubtaskSpec:
    """Everything a subtask needs to find and write its state; small and picklable.

    `cache_dir` None stands for the user's own directory on the machine where the subtask runs. `prefix` names the file
    it may write (".parquet" is appended). `runs` are oldest first. Each is read only where its key groups and the
    subtask's overlap, so after a rescale several subtasks may read one run. Rows up to the `horizon` have expired, and
    a row written now is changed `at` that time: see `protocol.schema.expiry`.
    """

    storage_url: str
    cache_dir: str | None
    operator: str
    pipeline: str
    checkpoint_id: int
    prefix: str
    key_groups: KeyGroupRange
    max_parallelism: int
    layout: StateLayout
    runs: tuple[StateHandle, ...] = ()
    at: int = 0
    horizon: int | None = None

    def where(self) -> str:
        return f"operator {self.operator} of pipeline {self.pipeline}, checkpoint {self.checkpoint_id}"

    def hashes(self) -> tuple[int, int]:
        """Return the smallest and largest unsigned hash of this subtask, both included."""
        return hashes_of(self.key_groups, self.max_parallelism)

    def hashes_in(self, run: StateHandle) -> tuple[int, int]:
        """Return the part of that range that a run covers. The first is larger than the second if there is none."""
        low, high = self.hashes()
        if run.key_groups is not None:
            run_low, run_high = hashes_of(run.key_groups, self.max_parallelism)
            low, high = max(low, run_low), min(high, run_high)
        if "min_hash" in run.details:
            low, high = max(low, int(run.details["min_hash"], 16)), min(high, int(run.details["max_hash"], 16))
        return low, high
