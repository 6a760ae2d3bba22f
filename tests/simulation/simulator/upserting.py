"""Tables that have what an operator's state has: which sinks are such, what a subtask stages for them, and what readers
see of it. A value of 0 is a key that has left the state: one that its function has removed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING, Any

from simulator import in_the_commit, topic_sinks, topic_tables
from simulator.in_the_commit import CommittedSink
from simulator.scheduler import require
from simulator.sinks import SimulatedSink
from simulator.sources import Row
from tidegate.dataflow.reports import Report
from tidegate.pipeline.vertices import KeyedVertex, Vertex
from tidegate.ports import SinkCommit, SinkInput
from tidegate.protocol.facts.records import StateHandle, SubtaskId
from tidegate.protocol.steps.sink_marks import DELETES, WHOLE, gone_first, is_whole

if TYPE_CHECKING:
    from simulator.running import Running
    from simulator.world import World


def is_drawn(seed: int) -> bool:
    """Of a stream of its own, as all draws here, so that the rest stays as it was drawn."""
    return Random(f"upserts {seed}").random() < 0.12 or topic_sinks.has_tables(seed)


def draw_input(seed: int, name: str, origin: Vertex, input: SinkInput) -> SinkInput:
    """What a sink takes that was to take something else."""
    has_state = isinstance(origin, KeyedVertex) and not origin.emits and origin.window is None
    drawn = is_drawn(seed) and has_state and Random(f"upserts {seed} {name}").random() < 0.8
    return SinkInput.UPSERTS if drawn else input


def make_sink(world: "World", name: str, input: SinkInput, root: str = "") -> SimulatedSink:
    if input is SinkInput.UPSERTS:
        if topic_tables.is_drawn(world, name):
            return topic_tables.TopicTable(world, name, input, root)
        with_restores = world.drawn.restore and not (world.drawn.saving or world.drawn.changes or world.drawn.forking)
        stays = with_restores and Random(f"stays {world.seed} {name}").random() < 0.4
        tells = Random(f"tells {world.seed} {name}").random() < 0.5
        return (StayingSink if stays else TellingSink if tells else UpsertingSink)(world, name, input, root)
    if input is SinkInput.CHANGES and topic_sinks.is_drawn(world, name):
        return topic_sinks.TopicSink(world, name, input, root)
    return in_the_commit.make_sink(world, name, input, root)


def shown(state: Mapping[int, int]) -> dict[int, int]:
    """What readers see of a state in which nothing has expired."""
    return {key: value for key, value in state.items() if value != 0}


def difference(before: Mapping[int, int], after: Mapping[int, int]) -> list[Row]:
    """What makes the one of the other."""
    gone = [(key, 0) for key in before if key not in after]
    return sorted([*gone, *((key, value) for key, value in after.items() if before.get(key) != value)])


Files = list[tuple[list[Row], dict[str, Any]]]  # rows, and the details of their file


def upserts(before: Mapping[int, int] | None, after: Mapping[int, int], base: Mapping[int, int]) -> Files:
    """What a subtask stages for a sink that has the state of `before`; for None it lacks rows. Keys that are gone have
    a file of their own, with all rows those of `base`."""
    if before is None:
        removed = [(key, 0) for key in sorted(shown(base).keys() - shown(after).keys())]
        return [(sorted(shown(after).items()), {WHOLE: True}), *([(removed, {DELETES: True})] if removed else [])]
    rows = difference(shown(before), shown(after))
    new, gone = ([row for row in rows if (row[1] == 0) is is_gone] for is_gone in (False, True))
    return [each for each in ((new, {}), (gone, {DELETES: True})) if each[0]]


def stage_upserts(
    subtask: SubtaskId, files: Files, stage: Callable[[list[Row]], Report], horizon: int | None
) -> Report:
    """The report of a sink's subtask, and the mark in it."""
    handles = [
        replace(handle, details={**handle.details, **details})
        for rows, details in files
        for handle in stage(rows).handles
    ]
    return Report(subtask.operator_id, subtask.subtask_index, tuple(handles), {}, {"layout": "", "horizon": horizon})


def is_all(staged: Sequence[StateHandle]) -> bool:
    """Whether files are said to have all rows, and then each of them, but for keys that are gone."""
    partly = [handle.path for handle in staged if not handle.details.keys() & {WHOLE, DELETES}]
    require(not (is_whole(staged) and partly), f"{partly} are staged beside files that have all rows")
    return is_whole(staged)


def take_in(table: dict[int, int], rows: Iterable[Row], what: str) -> None:
    """Change what readers see, for a sink that is given nothing that it has."""
    for key, value in rows:
        require(table.get(key, 0) != value, f"{what} is given {key}: {value}, and is as it was")
        if value == 0:
            del table[key]
        else:
            table[key] = value


class UpsertingSink(CommittedSink):
    """`SinkInput.UPSERTS`. The table keeps the files of each checkpoint, and readers see what these come to."""

    def __init__(self, world: "World", name: str, input: SinkInput, root: str = "") -> None:
        super().__init__(world, name, input, root)
        self.whole: set[str] = set()  # paths

    def _load(self, staged: Sequence[StateHandle]) -> int:
        self.whole |= {handle.path for handle in staged if WHOLE in handle.details}
        return super()._load(gone_first(staged))

    def rows(self) -> list[Row]:
        table: dict[int, int] = {}
        for id_, parts in groupby((part for part in self.parts() if part[3]), lambda part: part[0]):
            files = list(parts)
            rows = [row for part in files for row in self._rows_of(part)]
            if any(path in self.whole for _, path, _, _ in files):
                table.clear()  # and then it need not know which keys are gone
                rows = [row for row in rows if row[1] != 0]
            take_in(table, rows, f"{self.name} in checkpoint {id_}")
        return sorted(table.items())


class TellingSink(UpsertingSink):
    """`ports.PositionedSink`."""

    def shown_checkpoint(self) -> int | None:
        shows: int | None = self.tables.rows.get(f"{self.root} shows", {}).get(0)
        return shows


class StayingSink(UpsertingSink):
    """One that no restore takes back: it shows what was there before, until a checkpoint gives it all rows."""

    rewind = None  # type: ignore[assignment]

    def __init__(self, world: "World", name: str, input: SinkInput, root: str = "") -> None:
        super().__init__(world, name, input, root)
        self.kinds = [SinkCommit.AFTER_THE_COMMIT]

    def is_right(self, expected: Sequence[Row]) -> bool:
        history = self.world.observer.history
        is_left = bool(history.returns) and history.latest_id(self.world.store.state) <= history.returns[-1].newest
        return is_left or super().is_right(expected)


def left_as_they_are(world: "World | Running") -> list[str]:
    """What whoever restores has to accept."""
    return [vertex.name for vertex in world.graph.sinks if vertex.sink.rewind is None]  # type: ignore[attr-defined]
