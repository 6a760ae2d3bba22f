"""What is said between the parts of a pipeline, and whether it may be said: who asks, judges, answers and notifies."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simulator.expiring import Lives, alive
from simulator.live_files import is_current
from simulator.scheduler import require
from simulator.sinks import SimulatedSink
from tidegate.pipeline.graph import Graph
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.names import Target, operator_of_sink
from tidegate.protocol.facts.paths import marker_path
from tidegate.protocol.facts.records import (
    Acknowledgement,
    AcknowledgeResult,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.steps.sink_marks import DELETES
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.steps.verdicts import APPROVED_FROM

if TYPE_CHECKING:
    from simulator.world import World

COUNTED = {AcknowledgeResult.SUCCESS, AcknowledgeResult.DUPLICATE}


class Messages:
    """Of one simulated run."""

    def __init__(self, world: "World", graph: Graph) -> None:
        self.world = world
        self.graph = graph
        self.judged: dict[tuple[int, Target], list[Any]] = {}  # the snapshots, the verdict, and the target's files
        self.counted: set[tuple[int, SubtaskId]] = set()
        self.answered: dict[tuple[str, int], object] = {}  # the first answer of a step
        self.knows: dict[str, set[int]] = {name: set() for name in world.sinks}  # what each sink was notified of

    def asks(self, task: SnapshotTask) -> None:
        """A region is asked: the checkpoint is durable, and it starts from the latest completed one, whole."""
        state = self.world.store.state
        record = state.checkpoints.get(task.checkpoint_id)
        require(record is not None, f"checkpoint {task.checkpoint_id} is asked for, but not recorded")
        for subtask, attempt in task.attempts.items():
            known = state.subtasks[task.checkpoint_id][subtask]
            require(known.attempt >= attempt >= 1, f"attempt {attempt} of {subtask} is not recorded")
        if record is not None and record.status is Status.IN_PROGRESS and is_current(self.world, task):
            comparison = self.world.comparison
            latest = self.world.observer.history.now.checkpoint_id
            require(
                (latest > 0) == bool(task.restored), f"checkpoint {task.checkpoint_id} does not start from {latest}"
            )
            states = comparison.sequential.states
            for vertex in self.graph.keyed:
                next_horizon = Lives(vertex.name, vertex.ttl, {**states}).next_horizon
                restored = comparison.state_of(vertex.operator_id, task.restored, states)
                same = alive(vertex.ttl, restored, next_horizon) == alive(vertex.ttl, states[vertex.name], next_horizon)
                where = f"checkpoint {task.checkpoint_id} restores {vertex.name}"
                require(same, f"{where} from elsewhere than the latest completed")

    def forget(self, branch: Collection[int]) -> None:
        """The database is lost. Numbers of which nothing is left are given out again."""
        self.judged = {key: known for key, known in self.judged.items() if key[0] in branch}
        self.counted, self.answered = set(), {}
        self.knows = {name: known & set(branch) for name, known in self.knows.items()}

    def judges(self, id_: int, subtasks: Mapping[SubtaskId, SubtaskRecord], verdicts: Sequence[Verdict]) -> None:
        """A validator found the checkpoint good, or to be decided by a person, with exactly these snapshots."""
        snapshots = {subtask: known.snapshot for subtask, known in subtasks.items()}
        for verdict in verdicts:
            about = (snapshots, verdict.success, files_of(verdict.target, snapshots))
            self.judged.setdefault((id_, verdict.target), []).append(about)

    def require_judged(self, id_: int, verdict: Verdict, snapshots: dict[SubtaskId, Snapshot]) -> None:
        """A checkpoint completes with this verdict: it was given on exactly what completes, or on the same files of the
        target at the checkpoint that it was carried over from."""
        if verdict.carried_from is None:
            given = [judged for judged, _, _ in self.judged.get((id_, verdict.target), [])]
            what = f"checkpoint {id_} completed, but {verdict.target} was not judged as it is"
            return require(snapshots in given, what)
        approved = any(APPROVED_FROM in result for result in verdict.results)
        judged = self.judged.get((verdict.carried_from, verdict.target), [])
        good = [files for _, success, files in judged if success or approved]
        same = files_of(verdict.target, snapshots) in good
        what = f"{verdict.target} of checkpoint {id_} was carried over from {verdict.carried_from}"
        return require(same and bool(verdict.success), f"the verdict on {what}, which did not find these files good")

    def answers(
        self, id_: int, acks: Sequence[Acknowledgement], results: Mapping[SubtaskId, AcknowledgeResult]
    ) -> None:
        """A report was answered: only what is on record counted, and it counted once."""
        known = self.world.store.state.subtasks.get(id_, {})
        for ack in acks:
            result = results[ack.subtask]
            if result in COUNTED:
                same = known[ack.subtask].snapshot == ack.snapshot and known[ack.subtask].attempt == ack.attempt
                require(same, f"{ack.subtask} was answered {result}, but another snapshot is on record")
            if result is AcknowledgeResult.SUCCESS:
                require((id_, ack.subtask) not in self.counted, f"{ack.subtask} of checkpoint {id_} counted twice")
                self.counted.add((id_, ack.subtask))

    def repeats(self, step: str, id_: int, answer: object) -> None:
        """A step that is repeated gives its first answer. What a checkpoint delivered is not known any more once its
        history is rolled up."""
        if answer == [] and id_ in self.world.store.state.rolled_up:
            return
        first = self.answered.setdefault((step, id_), answer)
        require(first == answer, f"{step} of checkpoint {id_} answers {answer}, but first it was {first}")

    def tells(self, sink: SimulatedSink, id_: int, staged: Sequence[StateHandle]) -> None:
        """A sink is told to commit, after all others that the checkpoint follows."""
        record = self.world.store.state.checkpoints.get(id_)
        committed = record is not None and record.status in COMMITTED
        require(committed, f"{sink.name} is notified of checkpoint {id_}, which has not completed")
        marker = marker_path(self.graph.pipeline.name, id_)
        gone = record is None or record.status is not Status.COMPLETED  # who was overtaken may still go on
        require(
            gone or marker in self.world.storage.files, f"rows of checkpoint {id_} are shown before its marker is there"
        )
        earlier = self.world.observer.history.moments[id_].branch - {id_} - self.knows[sink.name]
        if self.world.observer.history.is_imported(id_):  # of which also who has finished long ago is notified
            earlier = {other for other in earlier if self.world.comparison.committables[other][sink.name]}
        require(not earlier, f"{sink.name} is notified of checkpoint {id_} before {sorted(earlier)}")
        self.shows(sink, id_, staged)

    def shows(self, sink: SimulatedSink, id_: int, staged: Sequence[StateHandle]) -> None:
        """What a sink is to show of a checkpoint is what that has staged."""
        same = [handle.path for handle in staged] == self.world.comparison.committables[id_][sink.name]
        require(same, f"{sink.name} is to show other files than checkpoint {id_} has")

    def missed(self, id_: int) -> list[str]:
        """The sinks that have rows of a checkpoint and were not notified of it."""
        subtasks = self.world.store.state.subtasks.get(id_, {}).values()
        asked = {known.subtask.operator_id for known in subtasks if known.attempt}
        return [name for name, known in self.knows.items() if f"{name}-sink" in asked and id_ not in known]

    def told(self, sink: SimulatedSink, id_: int) -> None:
        self.knows[sink.name].add(id_)


def files_of(target: Target, snapshots: Mapping[SubtaskId, Snapshot]) -> list[tuple[SubtaskId, str, str]]:
    """What is judged of a sink."""
    operator = operator_of_sink(target.name)
    return [
        (subtask, handle.path, handle.checksum)
        for subtask in sorted(snapshots)
        if subtask.operator_id == operator
        for handle in snapshots[subtask].handles
        if DELETES not in handle.details
    ]
