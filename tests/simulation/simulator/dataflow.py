"""A continuous pipeline around the real input gates and snapshot steps. Rows flow one by one, and several checkpoints
are in flight. Messages between sources, operators and the collector of snapshots come late, out of order or not at all;
the seed decides.

A checkpoint that completes must hold, in every operator, exactly what lies before its barriers; after a crash
everything goes on from the latest; and what sinks show in the end is what a plain execution gives (protocol.md sections
11 to 16). At least once, it may hold and show more, never less (section 17).
"""

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any

from worlds import ManualClock

from simulator.dataflow_parts import Completed, Operator, Row, Waiting
from simulator.scheduler import require
from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.elements import Aborted, Released, SnapshotDue
from tidegate.dataflow.input_gate import InputGate
from tidegate.ports import Segment
from tidegate.protocol.barriers.messages import Barrier, Cancel, EndOfPartition
from tidegate.protocol.barriers.options import GateOptions, make_handler
from tidegate.protocol.subtask.messages import (
    Acknowledge,
    AlignmentAborted,
    Begin,
    BroadcastBarrier,
    BroadcastCancel,
    Decline,
    Prepare,
    SnapshotOperators,
    StepDone,
    SubtaskEvent,
    WriteEnded,
)
from tidegate.protocol.subtask.steps import SubtaskSteps

TIMEOUT = 500  # steps


class Dataflow:
    """One simulated run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        self.lengths = [random.randint(3, 25) for _ in range(random.randint(1, 3))]
        self.exactly_once = random.random() < 0.7
        self.inputs = self._draw_graph()
        self.ending = self._draw_ending()
        self.trouble = self.drawn = random.choice([0.0, 0.002, 0.02])
        self.concurrent = random.randint(1, 3)
        self.visible: dict[tuple[int, int], list[Row]] = {}  # by operator and checkpoint
        self.latest: Completed | None = None
        self.last_id = 0
        self.trace: deque[str] = deque(maxlen=40)
        self.steps = 0
        self._restore()

    def describe(self) -> list[str]:
        """This run for somebody who looks for a mistake."""
        return [
            f"Continuous; sources of {self.lengths} rows, of which {sorted(self.ending)} end; operators read "
            f"{self.inputs}",
            f"Trouble: {self.drawn}; {self.concurrent} checkpoints at once, each row "
            f"{'exactly' if self.exactly_once else 'at least'} once",
            f"The last of {self.steps} steps:",
            *self.trace,
        ]

    # -- the graph

    def _draw_graph(self) -> list[tuple[str, ...]]:
        names = [f"source/{number}" for number in range(len(self.lengths))]
        inputs: list[tuple[str, ...]] = []
        for number in range(self.random.randint(1, 5)):
            inputs.append(tuple(self.random.sample(names, min(len(names), self.random.randint(1, 3)))))
            names.append(f"operator/{number}")
        return inputs

    def _draw_ending(self) -> set[int]:
        """Sources that may end early: not so many that an operator is left without any input."""
        for _ in range(5):
            ending = {number for number in range(len(self.lengths)) if self.random.random() < 0.5}
            finished = {f"source/{number}" for number in ending}
            if not any(set(inputs) <= finished for inputs in self.inputs):
                return ending
        return set()

    def _downstream(self, name: str) -> list[tuple[Operator, int]]:
        return [(op, op.inputs.index(name)) for op in self.operators if name in op.inputs]

    def ways_to(self, operator: int) -> Counter[int]:
        """How many ways lead from each source to an operator: each row passes it that often."""
        ways: Counter[int] = Counter()
        for name in self.inputs[operator]:
            kind, _, number = name.partition("/")
            ways += Counter([int(number)]) if kind == "source" else self.ways_to(int(number))
        return ways

    # -- life and death

    def _restore(self) -> None:
        """Everybody starts anew from the latest completed checkpoint; what was in flight is gone."""
        latest = self.latest
        self.positions = dict(latest.positions) if latest else dict.fromkeys(range(len(self.lengths)), 0)
        self.ended: set[int] = set()
        self.operators = [Operator(number, inputs) for number, inputs in enumerate(self.inputs)]
        for operator in self.operators:
            handler = make_handler(GateOptions(exactly_once=self.exactly_once), len(operator.inputs))
            operator.gate = InputGate([ChannelName.parse(name) for name in operator.inputs], handler, ManualClock())
            operator.steps = SubtaskSteps(self.concurrent)
            if latest is not None:
                seen, pending = latest.operators[operator.name]
                operator.seen, operator.pending = seen.copy(), dict(pending)
                self._commit(operator, latest.checkpoint_id)
        self.travelling: dict[tuple[int, int], deque[Any]] = {
            (op.name, channel): deque() for op in self.operators for channel in range(len(op.inputs))
        }
        self.messages: list[Callable[[], None]] = []
        self.waiting: dict[int, Waiting] = {}
        self.aborted: set[int] = set()

    def run(self) -> "Dataflow":
        while sum(self.positions.values()) < sum(self.lengths) and self.steps < 4000:
            self._step()
        self.trouble = 0.0
        for _ in range(5000):
            if self.latest is not None and sum(self.latest.positions.values()) == sum(self.lengths):
                break
            self._step()
        else:
            require(False, "no checkpoint completes although nothing is wrong any more")
        self._restore()
        self._compare()
        return self

    def _step(self) -> None:
        random = self.random
        self.steps += 1
        if random.random() < self.trouble / 4:
            self.trace.append("everything crashes")
            self._restore()
        if random.random() < 0.1 and len(self.waiting) < self.concurrent:
            self._trigger()
        if self.waiting and random.random() < self.trouble:
            self._abort(random.choice(list(self.waiting)))
        for checkpoint_id in [id_ for id_, waiting in self.waiting.items() if self.steps - waiting.since > TIMEOUT]:
            self._abort(checkpoint_id)
        if random.random() < 0.3:
            self._emit(random.randrange(len(self.lengths)))
        if self.messages and random.random() < 0.4:
            self.messages.pop(random.randrange(len(self.messages)))()
        if full := [place for place, queue in self.travelling.items() if queue]:
            self._arrive(*random.choice(full))

    # -- sources

    def _emit(self, source: int) -> None:
        if self.positions[source] < self.lengths[source]:
            row = (source, self.positions[source])
            self._send(f"source/{source}", Segment(source, {"row": row}, 1))
            self.positions[source] += 1
        elif source in self.ending and source not in self.ended:
            self.ended.add(source)
            self.trace.append(f"source {source} ends")
            for operator, channel in self._downstream(f"source/{source}"):
                self.travelling[operator.name, channel].append(EndOfPartition(channel))

    def _send(self, origin: str, data: Segment) -> None:
        for operator, channel in self._downstream(origin):
            self.travelling[operator.name, channel].append(data)

    def _broadcast(self, origin: str, marker: type[Barrier] | type[Cancel], checkpoint_id: int) -> None:
        for operator, channel in self._downstream(origin):
            self.travelling[operator.name, channel].append(marker(checkpoint_id, channel))

    def _trigger(self) -> None:
        self.last_id += 1
        checkpoint_id = self.last_id
        self.waiting[checkpoint_id] = Waiting(self.steps)
        self.trace.append(f"checkpoint {checkpoint_id} is triggered")
        for source in range(len(self.lengths)):
            self.messages.append(lambda source=source: self._inject(source, checkpoint_id))

    def _inject(self, source: int, checkpoint_id: int) -> None:
        """A source is asked for a barrier; it puts one at its position, unless the checkpoint was aborted meanwhile."""
        if checkpoint_id in self.aborted or checkpoint_id not in self.waiting:
            self._broadcast(f"source/{source}", Cancel, checkpoint_id)
            return
        self.waiting[checkpoint_id].positions[source] = self.positions[source]
        if source not in self.ended:
            self._broadcast(f"source/{source}", Barrier, checkpoint_id)
        self._complete(checkpoint_id)

    # -- operators

    def _arrive(self, number: int, channel: int) -> None:
        operator = self.operators[number]
        element = self.travelling[number, channel].popleft()
        if isinstance(element, Segment):
            operator.gate.offer(channel, element)
        else:
            operator.gate.signal(element)
        for output in operator.gate.drain():
            match output:
                case Released():
                    row = output.data.reference["row"]
                    self._check_order(operator, operator.inputs[output.channel], row)
                    operator.seen[row] += 1
                    operator.passed.append(row)
                    self._send(f"operator/{number}", output.data)
                case SnapshotDue():
                    self._decide(operator, output.checkpoint_id)
                    self._follow(operator, Begin(output.checkpoint_id, output.options))
                case Aborted():
                    self._decide(operator, output.abort.checkpoint_id)
                    self._follow(operator, AlignmentAborted(output.abort.checkpoint_id, output.abort.reason))

    def _decide(self, operator: Operator, checkpoint_id: int) -> None:
        """Newer ones only, where channels are aligned: what comes late about an older checkpoint is obsolete."""
        newer = checkpoint_id > operator.decided
        require(
            newer or not self.exactly_once,
            f"operator {operator.name} decides about {checkpoint_id} after {operator.decided}",
        )
        operator.decided = max(operator.decided, checkpoint_id)

    def _check_order(self, operator: Operator, origin: str, row: Row) -> None:
        """A row that was seen before a crash may come again if it need not count only once."""
        ways = self.ways_to(operator.name)[row[0]]
        if origin == f"source/{row[0]}" and ways == 1:
            expected = sum(1 for source, _ in operator.seen if source == row[0])
            again = not self.exactly_once and row[1] < expected
            require(
                again or row[1] == expected, f"operator {operator.name} gets row {row} instead of number {expected}"
            )

    def _is_wrong(self, number: int, expected: int) -> bool:
        return number < expected or (self.exactly_once and number > expected)

    def _follow(self, operator: Operator, event: SubtaskEvent) -> None:
        """The steps of a snapshot, one after the other (protocol.md section 12). What comes out of order has none."""
        checkpoint_id, name = event.checkpoint_id, f"operator/{operator.name}"
        for effect in operator.steps.step(event):
            match effect:
                case BroadcastBarrier():
                    self._broadcast(name, Barrier, checkpoint_id)
                case SnapshotOperators():
                    self._snapshot(operator, checkpoint_id)
                case Acknowledge():
                    self._acknowledge(operator, checkpoint_id)
                case Decline():
                    self.messages.append(lambda: self._abort(checkpoint_id))
                case BroadcastCancel():
                    self._broadcast(name, Cancel, checkpoint_id)
            if isinstance(effect, Prepare | BroadcastBarrier | SnapshotOperators):
                self._follow(operator, StepDone(checkpoint_id))

    def _snapshot(self, operator: Operator, checkpoint_id: int) -> None:
        """It is written beside all else, or never."""
        self.trace.append(f"operator {operator.name} takes its snapshot of {checkpoint_id}")
        operator.snapshot(checkpoint_id)
        if self.random.random() >= self.trouble:
            self.messages.append(lambda: self._follow(operator, WriteEnded(checkpoint_id)))

    def _acknowledge(self, operator: Operator, checkpoint_id: int) -> None:
        if checkpoint_id in self.waiting:
            self.waiting[checkpoint_id].operators[operator.name] = operator.written[checkpoint_id]
            self._complete(checkpoint_id)

    # -- checkpoints

    def _abort(self, checkpoint_id: int) -> None:
        if self.waiting.pop(checkpoint_id, None) is not None:
            self.trace.append(f"checkpoint {checkpoint_id} is aborted")
            self.aborted.add(checkpoint_id)

    def _complete(self, checkpoint_id: int) -> None:
        positions, snapshots = self.waiting[checkpoint_id].positions, self.waiting[checkpoint_id].operators
        if len(positions) < len(self.lengths) or len(snapshots) < len(self.operators):
            return
        self.trace.append(f"checkpoint {checkpoint_id} completes at {positions}")
        for number, (seen, _) in snapshots.items():
            ways = self.ways_to(number)
            rows = {(source, at): ways[source] for source in ways for at in range(positions[source])}
            wrong = {
                row: (seen[row], rows.get(row, 0)) for row in seen | rows if self._is_wrong(seen[row], rows.get(row, 0))
            }
            require(
                not wrong,
                f"in checkpoint {checkpoint_id} at {positions}, operator {number} has seen rows not as often as they "
                f"lie before the barriers (seen, before): {wrong}",
            )
        self.latest = Completed(checkpoint_id, positions, snapshots)
        for older in [id_ for id_ in self.waiting if id_ <= checkpoint_id]:
            del self.waiting[older]
        for operator in self.operators:
            if self.random.random() >= self.trouble:
                self.messages.append(lambda operator=operator: self._commit(operator, checkpoint_id))

    def _commit(self, operator: Operator, checkpoint_id: int) -> None:
        """Everything pre-committed up to a completed checkpoint becomes visible, in order; a repetition is no news."""
        for id_ in sorted(id_ for id_ in operator.pending if id_ <= checkpoint_id):
            rows = operator.pending.pop(id_)
            known = self.visible.setdefault((operator.name, id_), rows)
            require(known == rows, f"operator {operator.name} commits other rows for {id_} the second time")

    def shown(self, operator: Operator) -> Counter[Row]:
        """How often each row is visible."""
        return Counter(row for (name, _), rows in self.visible.items() if name == operator.name for row in rows)

    def _compare(self) -> None:
        for operator in self.operators:
            shown = self.shown(operator)
            ways = self.ways_to(operator.name)
            expected = {(source, at): ways[source] for source in ways for at in range(self.lengths[source])}
            wrong = {row: shown[row] for row in shown | expected if self._is_wrong(shown[row], expected.get(row, 0))}
            require(not wrong, f"operator {operator.name} shows rows {wrong} times, and a plain execution {expected}")
