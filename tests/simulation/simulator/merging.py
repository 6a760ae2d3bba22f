"""The second way to read an appended table: `tidegate.sinks.merged` itself, on a disk in memory."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from simulator.scheduler import require
from tidegate.sinks import merged

if TYPE_CHECKING:
    from simulator.sinks import SimulatedSink


def is_drawn(seed: int, root: str) -> bool:
    """Whether a table has it; of a stream of its own, so that the rest stays as it was drawn."""
    return Random(f"merging {seed} {root}").random() < 0.1


def choose_merges(sizes: Sequence[int], schemas: Callable[[int], bytes]) -> list[range]:
    """So few are merged that a simulated run sees it often, and mostly not all."""
    return [range(len(sizes) - 4, len(sizes) - 1)] if len(sizes) >= 4 else []


class SimulatedMerger:
    """A `merged.FileMerger`."""

    def __init__(self, sink: "SimulatedSink") -> None:
        self.sink = sink

    def schema(self, path: str) -> bytes:
        return b""

    def merge(self, sources: Sequence[str], target: str, keep: Callable[[], None]) -> None:
        disk, rows = self.sink.world.disk, list[Any]()
        for source in sources:
            keep()
            self.sink.world.point(f"reads {source}")
            rows += disk.file(source).content
        self.sink.world.point(f"writes {target}")
        disk.write_into(target, tuple(rows), len(rows))
        self.sink.world.met["merge of partitions"] += 1


def check(sink: "SimulatedSink", partitions: Mapping[int, Mapping[str, Any]], committed: set[int] | None) -> None:
    """A version has each row of the partitions of its checkpoint's branch once. `partitions` are all, visible or not;
    `committed` those that it must have by now, None while sinks go back with a restore."""
    base = f"{sink.root}/{merged.MERGED}"
    link = (sink.world.disk.find(base) or {}).get("current")
    if committed:
        require(link is not None, f"{sink.name} has no merged files of {committed}")
    if link is None:
        return
    version, files = int(link.rpartition("-")[2]), sink.world.disk.find(f"{base}/{link}")
    require(files is not None, f"{sink.name} shows merged files of checkpoint {version}, which are gone")
    moment = sink.world.observer.history.moments.get(version)
    if moment is None:  # a lost database knew it
        return
    rows = sorted(row for file in files.values() for row in file.content)
    within = sorted(id_ for id_ in partitions if id_ in moment.branch)
    if version not in sink.merged:  # later some may be deleted, while sinks have still to go back with a restore
        sink.merged[version] = sorted(
            row for id_ in within for file in partitions[id_].values() for row in file.content
        )
    wanted = sink.merged[version]
    require(rows == wanted, f"the merged files {sorted(files)} of {sink.name} have other rows than {within}")
    if committed is not None:
        newer = {id_ for id_ in committed if id_ > version}
        require(not newer, f"the merged files of {sink.name} are of checkpoint {version} and lack {newer}")
        present = sink.world.observer.history.branch_in(sink.world.store.state)
        require(version in present, f"the merged files of {sink.name} are of {version}, which was left behind")
