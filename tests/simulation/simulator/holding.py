"""Rules that hold: verdicts that wait for a person, people who decide about them, or do not, and whether what is
recorded is what they wanted. Drawn apart, and in few seeds, so that a seed without it stays the run that it was.
"""

from collections import defaultdict
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, cast

from user_actions import DECISIONS

from simulator.scheduler import Violation, require
from tidegate.coordination.context import PipelineContext
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.steps.hold import Holds
from tidegate.pipeline.expectations import Expectation, ExpectationSuite, expect, suite
from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import NotHeldError, RecordRefusedError
from tidegate.protocol.facts.lifecycle import COMMITTED, Phase, Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRecord, Decision, Verdict
from tidegate.protocol.steps.verdicts import FAILING

if TYPE_CHECKING:
    from memory_state import PipelineState

    from simulator.world import World

SHARE = 0.3  # of seeds
DEADLINES = ("CHECKPOINT_EXPIRED", "VALIDATION_FAILED", "JOB_FAILOVER_REGION")  # none of them ends a held checkpoint

HoldRequest = tuple[int | None, Decision, str]  # the checkpoint, None for the one that is held; what; by whom


def waits(record: CheckpointRecord) -> bool:
    return (record.status, record.phase) == (Status.IN_PROGRESS, Phase.HELD)


def held_in(state: "PipelineState") -> CheckpointRecord | None:
    return next((record for record in state.checkpoints.values() if waits(record)), None)


def _failing(id_: int, state: "PipelineState") -> list[tuple[Target, list[str]]]:
    """What fails the rules that hold, by target; no rows where they are not known."""
    return [
        (verdict.target, result.get(FAILING, []))
        for verdict in state.verdicts.get(id_, ())
        for result in verdict.results
        if result.get("type") == "holds" and result["success"] is False
    ]


class Holding:
    """Of one simulated run. `hold_for` None: no rule holds."""

    def __init__(self, seed: int, of: str) -> None:
        self.random = random = Random(f"{of} holding {seed}")
        self.overlaps = of == "continuous"
        self.hold_for = timedelta(seconds=random.choice([20, 180, 1800])) if random.random() < SHARE else None
        self.broken = random.choice([0.2, 0.4, 0.7])  # per judgement
        self.haste = random.choice([0.0, 0.005, 0.03, 0.2])  # per event while one is held: somebody decides
        self.may_be_held: set[int] = set()
        self.wanted: set[HoldRequest] = set()
        self.timeouts: dict[int, timedelta] = {}
        self.rows = Random(f"{of} held rows {seed}")
        self.knows_rows = self.rows.random() < SHARE  # of seeds where a rule holds: which rows fail it is known
        if self.knows_rows:  # and come again, after somebody has decided
            self.broken, self.haste = 0.8, 0.3

    def suite(self) -> ExpectationSuite:
        """Of every sink that is judged. With a rule that holds there is one that does not."""
        if self.hold_for is None:
            return suite("s", expect("column_to_exist", column="k"))
        holds = expect("column_to_exist", column="k", on_failure="hold", hold_for=self.hold_for)
        return suite("s", holds, Expectation("expect_table_row_count_to_be_between", ()))

    def breaks(self, checkpoint_id: int, verdicts: list[Verdict]) -> bool:
        """Whether the data of a target that is judged now breaks its rule that holds, and sometimes the other too. True
        if a person may overrule what is judged."""
        if self.hold_for is None or not verdicts or self.random.random() >= self.broken:
            return False
        worst, both = self.random.randrange(len(verdicts)), self.random.random() < 0.2
        results = ({"type": "holds", "success": False, **self._failing()}, {"type": "aborts", "success": not both})
        verdicts[worst] = Verdict(verdicts[worst].target, "s", False, 2, 1 + both, results)
        if not both:
            self.may_be_held.add(checkpoint_id)
        return not both

    def _failing(self) -> dict[str, list[str]]:
        if not self.knows_rows or self.rows.random() < 0.1:
            return {}
        return {FAILING: self.rows.sample(["a", "b"], self.rows.choice([1, 1, 2]))}

    def draw(self, state: "PipelineState", now: datetime) -> list[HoldRequest]:
        """What people decide now: about what is held, which they may not name, or about another one by mistake. Some
        come when it is too late, and nobody has noticed that yet."""
        held = held_in(state)
        if len(several := [record for record in state.checkpoints.values() if waits(record)]) > 1:
            held = self.random.choice(several)
        if held is None or self.random.random() >= (self.haste if now < held.ends_at else max(0.5, self.haste)):
            return []
        requests = []
        for _ in range(self.random.choice([1, 1, 2, 3])):
            id_ = self.random.choice([held.checkpoint_id] * 4 + [None, self.random.choice(list(state.checkpoints))])
            requests.append((id_, self.random.choice(list(Decision)), f"person {len(self.wanted) + len(requests)}"))
        self.wanted |= set(requests)
        return requests

    def carry_out(self, who: CheckpointCoordinator | Holds, request: HoldRequest) -> CheckpointRecord:
        """`who` is a coordinator, or what a process without the pipeline's code has instead."""
        id_, decision, by = request
        verb = "approve" if decision is Decision.APPROVED else "reject"
        try:
            if isinstance(who, Holds):
                record = who.approve(id_, by) if verb == "approve" else who.reject(id_, by)
            else:
                record = DECISIONS[verb](who, id_, by)
        except RecordRefusedError as error:
            raise Violation(f"{by} decides {decision} about {id_}, and the store refuses it: {error}") from error
        right = record.decision is decision and id_ in (None, record.checkpoint_id)
        require(right, f"{by} decides {decision} about {id_}, and is answered {record}")
        return record

    # -- what is recorded

    def check(self, before: "PipelineState", after: "PipelineState", now: datetime) -> None:
        """After every commit, by the clock of who made it."""
        held = held_in(after)
        for id_, record in after.checkpoints.items():
            previous = before.checkpoints.get(id_)
            if previous is None:
                self.timeouts[id_] = record.deadline - record.triggered_at
                continuous = self.overlaps and after.region.seen_at is not None
                require(held is None or continuous, f"checkpoint {id_} begins although another one is held")
            elif previous is not record:
                if record.decision is None and record.deadline < previous.deadline:
                    self.timeouts[id_] = timedelta(0)  # it was corrected, and what is left of it counts
                self._moved(previous, record, now, after)
                if waits(previous):
                    same = after.verdicts.get(id_) == before.verdicts.get(id_)
                    require(same, f"the verdicts on checkpoint {id_} were changed while it was held")
                if record.status in COMMITTED and previous.status not in COMMITTED:
                    self._only_what_was_seen(id_, after)
                    over = held is not None and held.checkpoint_id < id_
                    require(not over, f"checkpoint {id_} completes over an older one that is held")
        rejected = [record for record in after.checkpoints.values() if record.decision is Decision.REJECTED]
        require(all(record.status is Status.FAILED for record in rejected), "what was rejected goes on")

    def _moved(
        self, previous: CheckpointRecord, record: CheckpointRecord, now: datetime, after: "PipelineState"
    ) -> None:
        id_ = record.checkpoint_id
        if waits(record) and not waits(previous):
            assert record.held_at is not None
            assert record.held_until is not None
            require(id_ in self.may_be_held, f"checkpoint {id_} is held, but a rule that aborts was broken")
            if not self.overlaps:
                seen = self._seen(id_, after)
                new = any(not each or not set(each) <= seen[target] for target, each in _failing(id_, after))
                require(new, f"checkpoint {id_} is held for rows that were approved")
            right = record.held_until - record.held_at == self.hold_for
            require(right, f"checkpoint {id_} is held until {record.held_until}")
        if waits(previous) and not waits(record):
            self._leaves(previous, record, now)
        approved = previous.decision is Decision.APPROVED and record.status is Status.FAILED
        if approved and record.failure_reason is not None and record.failure_reason.name == "CHECKPOINT_EXPIRED":
            assert previous.decided_at is not None
            late = now >= previous.decided_at + self.timeouts[id_]
            require(late, f"checkpoint {id_} expires although it has just been approved")
        require(
            not (approved and record.failure_reason and record.failure_reason.name == "JOB_FAILOVER_REGION"),
            f"checkpoint {id_} was approved, and a region aborts it",
        )

    def _leaves(self, previous: CheckpointRecord, record: CheckpointRecord, now: datetime) -> None:
        id_, by = record.checkpoint_id, record.decided_by or ""
        assert previous.held_until is not None
        if record.status is Status.IN_PROGRESS or record.failure_reason is FailureReason.VALIDATION_REJECTED:
            decision = Decision.APPROVED if record.status is Status.IN_PROGRESS else Decision.REJECTED
            mine = {(id_, decision, by), (None, decision, by)} & self.wanted
            require(record.decision is decision and mine, f"nobody has {decision} checkpoint {id_} ({by or 'no name'})")
            require(now < previous.held_until, f"checkpoint {id_} is {decision} after the end of its hold")
            return
        assert record.failure_reason is not None
        reason = record.failure_reason.name
        require(reason not in DEADLINES, f"checkpoint {id_} was held, and ends with {reason}")
        require(reason != "HOLD_EXPIRED" or now >= previous.held_until, f"the hold of checkpoint {id_} ends too early")
        mistaken = "waits for manual approval" in (record.failure_message or "")
        require(not mistaken, f"checkpoint {id_} is aborted because it is held")

    def _only_what_was_seen(self, id_: int, state: "PipelineState") -> None:
        """Without a person's word, only rows pass that a person has let pass before, on the way to this checkpoint."""
        if state.checkpoints[id_].decision is Decision.APPROVED:
            return
        seen = self._seen(id_, state)
        for target, rows in _failing(id_, state):
            require(bool(rows) and set(rows) <= seen[target], f"checkpoint {id_} completes with {rows} of {target}")

    def _seen(self, id_: int, state: "PipelineState") -> dict[Target, set[str]]:
        """By target, the failing rows of earlier checkpoints that a person approved, and that have completed."""
        seen: dict[Target, set[str]] = defaultdict(set)
        for earlier, record in state.checkpoints.items():
            counts = record.status in COMMITTED and record.abandoned_by is None and earlier < id_
            if counts and record.decision is Decision.APPROVED:
                for target, rows in _failing(earlier, state):
                    seen[target] |= set(rows)
        return seen

    def is_approved(self, record: CheckpointRecord) -> bool:
        """Whether it may complete although a verdict failed."""
        return record.decision is Decision.APPROVED and record.checkpoint_id in self.may_be_held


def decide(world: "World", who: CheckpointCoordinator | Holds, request: HoldRequest) -> None:
    """`tidegate approve` or `reject`, perhaps twice. Who is refused was too late, or not the first."""
    id_, decision, by = request
    try:
        first = world.holding.carry_out(who, request)
        if world.holding.random.random() < 0.3:
            again = world.holding.carry_out(who, (first.checkpoint_id, decision, by))
            require(again.decided == first.decided, f"{by} decides again, and is answered {again}")
    except NotHeldError as error:
        process, state = world.scheduler.current, world.store.state  # nobody else had a turn since it looked
        assert process is not None
        found = state.checkpoints.get(id_) if id_ is not None else held_in(state)
        open_ = found is not None and waits(found) and process.read_clock_at < found.ends_at
        require(not open_, f"checkpoint {id_} is held, but {by} is told: {error}")
        raise


def let_people_decide(world: "World") -> None:
    """Each in a process of their own, which may have none of the pipeline's code."""
    holding = world.holding

    def without_code() -> Holds:
        store = cast(CheckpointStore, world.store)
        return Holds(PipelineContext(world.pipeline_id, store, world.storage, world.clock))

    for request in holding.draw(world.store.state, world.clock.time):
        opened = without_code if holding.random.random() < 0.5 else world.open_coordinator
        world.spawn(
            f"{request[2]}:{request[1]} chk-{request[0]}",
            lambda request=request, opened=opened: decide(world, opened(), request),
        )
