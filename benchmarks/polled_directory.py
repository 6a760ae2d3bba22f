"""A directory of many files that a source has read, and polls of it.

What a poll takes beside listing is what is left when `Directory.files` is taken out: it is timed between `FileSource`
and the disk. What pyarrow takes for one listing, in one thread and without taking names, sizes and times out of it, is
measured apart.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pyarrow import fs

from tidegate.ports import SourceContext
from tidegate.protocol.facts.records import Snapshot
from tidegate.sources import files as sources
from tidegate.sources import manifests
from tidegate.sources.directory import Directory
from tidegate.sources.files import FileSource
from tidegate.sources.listing import FileVersion, split_of
from tidegate.state.storage import ArrowCheckpointStorage

#: In this order. *first* is the first poll of a process, which reads what its position refers to.
SCENES = ("first, nothing new", "nothing new", "one new file", "one new file, all others moved away")
#: Seconds and seconds of processor: of a poll, of the listing in it, and of what is beside that.
FIGURES = ("seconds", "processor", "listing", "listing_processor", "beside", "beside_processor")
_DAYS = 365
_BATCHES = 40  # in which the files were read


@dataclass
class Figures:
    """By scene and figure, the median and the largest; and `plain`, pyarrow's own listing."""

    files: int
    splits: int
    scenes: dict[str, dict[str, tuple[float, float]]]
    plain: dict[str, tuple[float, float]]


class TimedDirectory(Directory):
    """Stands for `Directory`."""

    taken = (0.0, 0.0)

    def files(self, recursive: bool = True, follow_links: bool = False) -> Any:
        listing, took = timed(lambda: super(TimedDirectory, self).files(recursive, follow_links))
        TimedDirectory.taken = took
        return listing


def timed(call: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """What it returns, seconds, and seconds of processor."""
    clock, processor = time.perf_counter(), time.process_time()
    result = call()
    return result, (time.perf_counter() - clock, time.process_time() - processor)


class Polls:
    """A source, its position, and the polls of it that count."""

    def __init__(self, root: Path, splits: int) -> None:
        self.root, self.landing, self.splits = root, root / "landing", splits
        self.storage = ArrowCheckpointStorage(str(root / "checkpoints"))
        self.snapshots = [Snapshot((), {"splits": splits, "files": 0}) for _ in range(splits)]
        self.checkpoint = 0

    def source(self) -> FileSource:
        return FileSource(str(self.landing), format="parquet", schema="key BIGINT", splits=self.splits)

    def context(self, split: int) -> SourceContext:
        other_splits = [snapshot for other, snapshot in enumerate(self.snapshots) if other != split]
        return SourceContext(self.storage, self.checkpoint, f"p/chk-{self.checkpoint}/in/{split}-1-x", other_splits)

    def has_read(self, files: Sequence[FileVersion]) -> None:
        """As checkpoints did that read these files, so many at a time."""
        step = max(1, len(files) // _BATCHES)
        for start in range(0, len(files), step):
            self.checkpoint += 1
            for split in range(self.splits):
                fresh = [file for file in files[start : start + step] if split_of(file.path, self.splits) == split]
                before = self.snapshots[split]
                count = (before.position or {})["files"] + len(fresh)
                handles = manifests.extend(before.handles, fresh, self.context(split), None)
                self.snapshots[split] = Snapshot(handles, {"splits": self.splits, "files": count})

    def poll(self, source: FileSource, expected: int) -> tuple[float, ...]:
        """All splits once; the figures are those of `FIGURES`."""
        self.checkpoint += 1
        polled, whole = timed(lambda: [source.poll(n, self.snapshots[n], self.context(n)) for n in range(self.splits)])
        read = sum(len(segment.reference["files"]) for segment, _ in polled if segment is not None)
        assert read == expected, (read, expected)
        self.snapshots = [snapshot for _, snapshot in polled]
        listing = TimedDirectory.taken
        return *whole, *listing, whole[0] - listing[0], whole[1] - listing[1]


def measure(root: Path, files: int, splits: int, times: int) -> Figures:
    vars(sources)["Directory"] = TimedDirectory
    try:
        polls = Polls(root, splits)
        polls.has_read(list(landed(polls.landing, files)))
        plain = [timed(lambda: plainly_listed(polls.landing))[1] for _ in range(times)]
        found = {scene: figures(FIGURES, taken) for scene, taken in scenes(polls, times).items()}
        return Figures(files, splits, found, figures(FIGURES[:2], plain))
    finally:
        vars(sources)["Directory"] = Directory


def plainly_listed(landing: Path) -> Any:
    return fs.LocalFileSystem().get_file_info(fs.FileSelector(str(landing), recursive=True))


def scenes(polls: Polls, times: int) -> dict[str, list[tuple[float, ...]]]:
    first = [first_of_a_process(polls) for _ in range(times)]
    source = polls.source()
    polls.poll(source, 0)
    again = [polls.poll(source, 0) for _ in range(times)]
    arriving = [polls.poll(source, arrive(polls.landing, n)) for n in range(times)]
    polls.landing.rename(polls.landing.with_name("archive"))
    alone = [polls.poll(source, arrive(polls.landing, n)) for n in range(times, 2 * times)]
    return dict(zip(SCENES, (first, again, arriving, alone), strict=True))


def first_of_a_process(polls: Polls) -> tuple[float, ...]:
    """In one that is new, as that of a DAG run is, and with nothing new to read."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        position = str(polls.root), polls.splits, polls.snapshots, polls.checkpoint
        return process.submit(_poll_once, *position).result()


def _poll_once(root: str, splits: int, snapshots: list[Snapshot], checkpoint: int) -> tuple[float, ...]:
    import_module("tidegate.state.columns")  # a driver has imported it when it polls, and what that needs of PyArrow
    vars(sources)["Directory"] = TimedDirectory
    polls = Polls(Path(root), splits)
    polls.snapshots, polls.checkpoint = snapshots, checkpoint
    return polls.poll(polls.source(), 0)


def landed(landing: Path, files: int) -> Iterator[FileVersion]:
    """Files of a year, without content: polls look at names, sizes and times only."""
    for day in range(_DAYS):
        directory = landing / f"day={day:03}"
        directory.mkdir(parents=True)
        for number in range(files * day // _DAYS, files * (day + 1) // _DAYS):
            name = f"part-{number:08}.parquet"
            descriptor = os.open(directory / name, os.O_CREAT | os.O_WRONLY)
            yield FileVersion(f"{directory.name}/{name}", 0, os.fstat(descriptor).st_mtime_ns, os.urandom(16).hex())
            os.close(descriptor)


def arrive(landing: Path, number: int) -> int:
    directory = landing / f"day={number * 37 % _DAYS:03}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"new-{number}.parquet").touch()
    return 1


def figures(names: Sequence[str], taken: Sequence[tuple[float, ...]]) -> dict[str, tuple[float, float]]:
    columns = zip(names, zip(*taken, strict=True), strict=True)
    return {name: (statistics.median(values), max(values)) for name, values in columns}
