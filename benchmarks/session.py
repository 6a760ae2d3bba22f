"""What both engines' processes have in common: the work they are given, the marks they leave, and what they wrote.

An engine runs in a process of its own, does the epochs it is asked for, and appends one JSON line for each.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from process_tree import processor_seconds
from workload import Epoch, Workload


@dataclass(frozen=True, slots=True)
class Session:
    """One process's work. `root` is the engine's own directory, `also` processes that work for it elsewhere."""

    workload: Workload
    restarted: bool
    data: Path
    root: Path
    also: tuple[int, ...] = ()

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def local(self) -> Path:
        """For Spark's own files: shuffles, and RocksDB's working copies."""
        return self.root / "local"

    def spark_settings(self) -> dict[str, str]:
        """The same for both engines, beside what `conditions` say."""
        return {"spark.local.dir": str(self.local)}

    @property
    def totals(self) -> Path:
        return self.root / "totals"

    @property
    def marks(self) -> Path:
        return self.root / f"marks-{'restarted' if self.restarted else 'first'}.jsonl"

    def epochs(self) -> list[Epoch]:
        return [epoch for epoch in self.workload.epochs() if (epoch.phase == "restart") == self.restarted]

    def to_json(self) -> str:
        fields = {**asdict(self), "data": str(self.data), "root": str(self.root)}
        return json.dumps(fields)


def given_session() -> Session:
    """The session named on the command line."""
    fields = json.loads(sys.argv[1])
    paths = {"data": Path(fields["data"]), "root": Path(fields["root"])}
    return replace(Session(**{**fields, **paths}), workload=Workload(**fields["workload"]), also=tuple(fields["also"]))


#: Does what ends an epoch, and answers the seconds it took and how they divide.
Take = Callable[[Epoch], tuple[float, Mapping[str, float]]]


def run_epochs(session: Session, take: Take, elsewhere: Callable[[], int] = lambda: 0) -> None:
    """Let each file appear, take its epoch, and leave a mark. `elsewhere` counts bytes written outside `root`."""
    session.landing.mkdir(parents=True, exist_ok=True)
    roots, others_before = (os.getpid(), *session.also), processor_seconds(*session.also)
    files, other_bytes = _files(session.root), elsewhere()
    for epoch in session.epochs():
        processors = processor_seconds(*roots)
        os.link(session.data / epoch.file, session.landing / epoch.file)
        begin = time.monotonic()
        seconds, split = take(epoch)
        end = time.monotonic()
        processors = processor_seconds(*roots) - processors
        before, files = files, _files(session.root)
        before_elsewhere, other_bytes = other_bytes, elsewhere()
        mark(
            session,
            **asdict(epoch),
            begin=begin,
            end=end,
            seconds=seconds,
            split=dict(split),
            processors=processors,
            processors_since_start=processor_seconds(os.getpid()) + processor_seconds(*session.also) - others_before,
            written=_added(before, files, session.root) + other_bytes - before_elsewhere,
            checkpoint_bytes=_added(before, files, session.checkpoints) + other_bytes - before_elsewhere,
        )


def mark(session: Session, **fields: Any) -> None:
    with session.marks.open("a") as file:
        file.write(json.dumps(fields) + "\n")


def marks(session: Session) -> list[dict[str, Any]]:
    return [json.loads(line) for line in session.marks.read_text().splitlines()]


def _files(directory: Path) -> dict[tuple[str, int], int]:
    """Sizes of the files below a directory by path and inode; some may be going away at this moment."""
    sizes = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                status = os.stat(path := os.path.join(parent, name))
            except FileNotFoundError:
                continue
            sizes[path, status.st_ino] = status.st_size
    return sizes


def _added(before: Mapping[tuple[str, int], int], now: Mapping[tuple[str, int], int], below: Path) -> int:
    """Bytes of files below a directory that are new or have grown. Input files and marks are not the engine's."""
    own = (key for key in now if key[0].startswith(f"{below}/") and Path(key[0]).parent.name != "landing")
    return sum(max(0, now[key] - before.get(key, 0)) for key in own)
