"""A two-phase output: staged while a checkpoint is taken, visible once it is told that it completed. How rows become
visible is `tidegate.sinks.publish` itself, and how it goes back `tidegate.sinks.rewind`, on a disk in memory.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn

from simulator import merging
from simulator.history import is_rewinding
from simulator.live_files import require_unneeded
from simulator.scheduler import Violation, require
from simulator.sources import Row
from tidegate.ports import CheckpointStorage, CommitAttempt, SinkCommit, SinkInput, Withdrawn
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import SinkError, StateIntegrityError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import checkpoint_id_of
from tidegate.protocol.facts.records import HandleKind, StateHandle
from tidegate.protocol.recovery.ownership import Owner
from tidegate.sinks import fencing, merged, publish, rewind, staging

if TYPE_CHECKING:
    from simulator.world import World

FULL = "the disk is full"


class SimulatedSink:
    """`ports.RewindableSink`, portable, numbered and staging. Readers see all rows, or of `CURRENT` ones the last."""

    commits = SinkCommit.AFTER_THE_COMMIT

    def __init__(self, world: "World", name: str, input: SinkInput, root: str = "") -> None:
        self.world = world
        self.name = name
        self.root = root or f"/{name}"
        self.input = input
        world.tables[self.root] = self
        self.shown: list[int] = []  # what `current` has shown, in order
        self.replaced_at: dict[int, datetime] = {}
        # Of a stream of its own, so that the rest stays as it was drawn.
        self.merges = input is SinkInput.CHANGES and merging.is_drawn(world.seed, self.root)
        self.merged: dict[int, list[Row]] = {}  # by version, its rows
        self.readable_for = timedelta(seconds=90 * (Random(f"readers {world.seed} {self.root}").random() < 0.1))

    def stage(self, checkpoint_id: int, unique: str, rows: Sequence[Row]) -> StateHandle:
        """Write rows where no reader sees them, from a subtask."""
        path, content = f"{staging.staging_of(checkpoint_id)}/{unique}", json.dumps(rows).encode()
        self.world.point(f"stages {path} in {self.name}")
        size = len(content) - self.world.strikes("lost_write")
        self.world.disk.write(f"{self.root}/{path}", tuple(rows), size)
        self.world.point(f"has staged {path}")
        checksum = sha256(content).hexdigest()
        return StateHandle(path, HandleKind.STAGED, len(rows), len(content), checksum, checkpoint_id)

    def is_whole(self, handle: StateHandle) -> bool:
        file = self.world.disk.find(f"{self.root}/{handle.path}")
        return file is not None and file.size == handle.bytes

    @property
    def staged(self) -> dict[str, tuple[Row, ...]]:
        """Rows by path."""
        staging = self.world.disk.find(f"{self.root}/_staging") or {}
        return {
            f"_staging/{directory}/{name}": file.content
            for directory in staging
            for name, file in staging[directory].items()
        }

    def rows(self) -> list[Row]:
        """What readers see."""
        return sorted(row for files in self._visible().values() for file in files.values() for row in file.content)

    def _visible(self) -> dict[int, dict[str, Any]]:
        """Checkpoints and their files."""
        root = self.world.disk.find(self.root) or {}
        if self.input is SinkInput.CHANGES:
            return _partitions(root)
        if "current" not in root:
            return {}
        files = self.world.disk.find(f"{self.root}/{root['current']}")
        require(files is not None, f"{self.name} shows {root['current']}, which is gone")
        return {int(root["current"].rpartition("-")[2]): files}

    def is_right(self, expected: Sequence[Row]) -> bool:
        """Whether readers see this."""
        return self.rows() == expected

    def put_away(self) -> dict[int, dict[str, Any]]:
        """The same of what is withdrawn."""
        return _partitions(self.world.disk.find(f"{self.root}/_withdrawn") or {})

    def check(self) -> None:
        """What readers see is whole, and goes back only with a restore; who opened the version before may finish."""
        visible, away = self._visible(), self.put_away()
        for id_, files in (*visible.items(), *away.items()):
            self._check_whole(id_, files)
        self._check_kept(visible.keys() | away.keys())
        is_calm = not is_rewinding(self.world.store.state)
        if is_calm:
            self._check_present(visible)
        if self.merges:
            history = self.world.observer.history
            committed = self._committed(history.branch_in(self.world.store.state)) if is_calm else None
            merging.check(self, {**visible, **away}, committed)
        if self.input is SinkInput.CURRENT and (visible or self.shown):
            now, before = max(visible, default=0), self.shown[-1] if self.shown else 0
            goes_on = now >= before or is_rewinding(self.world.store.state)
            require(goes_on, f"{self.name} shows checkpoint {now} after {before}")
            if now != before:
                self.shown.append(now)
                self.replaced_at[before] = self.world.clock.time
            lately = {id_ for id_, at in self.replaced_at.items() if self.world.clock.time - at < self.readable_for}
            for id_ in filter(None, lately | {*self.shown[-2:-1]}):
                files = self.world.disk.find(f"{self.root}/_versions/chk-{id_}")
                require(files is not None, f"{self.name} has removed checkpoint {id_}, which readers may have open")
                self._check_whole(id_, files)

    def _check_present(self, visible: Mapping[int, Collection[str]]) -> None:
        """Of the present branch readers see what was committed, and of others nothing. A checkpoint to which nothing
        came may leave a table of current rows as it is."""
        present = self.world.observer.history.branch_in(self.world.store.state)
        shown = visible.keys()
        require(shown <= present, f"{self.name} shows checkpoints {shown - present}, which were left behind")
        committed = self._committed(present)
        if self.input is SinkInput.CHANGES:
            require(committed <= shown, f"{self.name} does not show checkpoints {committed - shown}")
        elif (newest := max(committed, default=0)) > (current := max(shown, default=0)):
            same = current and sorted(visible[current]) == self._promised(newest)
            require(same, f"{self.name} does not show checkpoint {newest}")

    def _check_kept(self, there: Collection[int]) -> None:
        """The rows that a kept checkpoint rests on are there, also if it was left behind."""
        history, checkpoints = self.world.observer.history, self.world.store.state.checkpoints
        if self.input is SinkInput.CURRENT or not history.returns:
            return
        for id_ in history.left_by:
            if checkpoints[id_].status is Status.COMPLETED:
                lost = self._committed(history.moments[id_].branch) - set(there)
                require(not lost, f"{self.name} has lost checkpoints {lost}, which checkpoint {id_} rests on")

    def _committed(self, ids: Collection[int]) -> set[int]:
        """Checkpoints that have rows here and were committed."""
        promised = self.world.comparison.committables
        checkpoints = self.world.observer.history.lost | self.world.store.state.checkpoints
        return {id_ for id_ in ids if checkpoints[id_].notified_at is not None and promised[id_][self.name]}

    def _check_whole(self, id_: int, files: dict[str, Any]) -> None:
        promised = self.world.comparison.committables.get(id_, {}).get(self.name)
        require(promised is not None, f"{self.name} shows checkpoint {id_}, which has not completed")
        names = self._promised(id_)
        require(sorted(files) == names, f"{self.name} shows {sorted(files)} of checkpoint {id_} instead of {names}")

    def _promised(self, id_: int) -> list[str]:
        """The names of the files that a completed checkpoint is to show."""
        return sorted(path.rpartition("/")[2] for path in self.world.comparison.committables[id_][self.name] or ())

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        self.world.point(f"commits chk-{checkpoint_id} to {self.name} as attempt {attempt.number}")
        if self.world.strikes("sink_error"):
            raise SinkError(FULL)
        self.world.messages.tells(self, checkpoint_id, staged)
        if self.input is SinkInput.CHANGES:
            publish.append(self.root, checkpoint_id, staged, attempt, self._view())
            self._delete([handle.path for handle in staged])
        else:
            publish.replace(self.root, checkpoint_id, staged, attempt, self.readable_for)
        self.world.messages.told(self, checkpoint_id)
        self.world.point(f"has committed chk-{checkpoint_id} to {self.name}")

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        self.world.point(f"rewinds {self.name} to chk-{checkpoint_id} as attempt {attempt.number}")
        if self.world.strikes("sink_error"):
            raise SinkError(FULL)
        self.world.messages.shows(self, checkpoint_id, staged)
        if self.input is SinkInput.CHANGES:
            rewind.append(self.root, checkpoint_id, branch, attempt, self._view())
        else:
            rewind.replace(self.root, checkpoint_id, staged, attempt)
        self.world.point(f"has rewound {self.name} to chk-{checkpoint_id}")

    def _view(self) -> publish.View | None:
        if not self.merges:
            return None
        return merged.MergedView(self.root, self.readable_for, merging.SimulatedMerger(self))

    def shown_outside(self, branch: Branch) -> list[Withdrawn]:
        return (rewind.shown_outside if self.input is SinkInput.CHANGES else rewind.replaced)(self.root, branch)

    def withdrawn(self) -> list[int]:
        return rewind.withdrawn(self.root)

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        rewind.delete_withdrawn(self.root, checkpoint_ids, attempt)

    def verify(self, staged: Sequence[StateHandle], in_full: Collection[str]) -> None:
        self.world.point(f"looks at {len(staged)} staged files of {self.name}")
        for handle in staged:
            if not self.is_whole(handle):
                raise StateIntegrityError(f"{handle.path} is not what was staged")

    def staging(self) -> "StagingArea":
        return StagingArea(self)

    def writer_at(self, url: str) -> NoReturn:
        raise AssertionError("nothing is edited here")

    def numbers(self) -> tuple[int, int]:
        ids = [*self.staged_checkpoints(), *publish.versions(self.root), *rewind.shown(self.root)]
        return max([*ids, *rewind.withdrawn(self.root)], default=0), fencing.last_attempt(self.root)

    # -- whose it is: read and written in no step of anybody, so that other steps are drawn as before

    def owner(self) -> Owner | None:
        return self.world.disk.marks.get(self.root)

    def mark(self, owner: Owner) -> Owner:
        return self.world.disk.marks.setdefault(self.root, owner)

    def mark_anew(self, owner: Owner) -> None:
        self.world.disk.marks[self.root] = owner

    def is_used(self) -> bool:
        root = self.world.disk.find(self.root) or {}
        return any(each for name, each in root.items() if name != "_committing")

    def staged_checkpoints(self) -> list[int]:
        return sorted(id_ for name in self._listed("_staging") if (id_ := checkpoint_id_of(name)) is not None)

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        directory = staging.staging_of(checkpoint_id)
        return sorted(f"{directory}/{name}" for name in self._listed(directory))

    def _listed(self, directory: str) -> list[str]:
        with suppress(FileNotFoundError):
            return self.world.disk.listdir(f"{self.root}/{directory}")
        return []

    def discard(self, paths: Sequence[str]) -> None:
        for path in paths:
            require_unneeded(self.world, f"sink:{self.name}-sink", path)
            self._delete([path])

    def _delete(self, paths: Sequence[str]) -> None:
        """As a storage deletes staged files, and then their directory if it is left empty."""
        for path in paths:
            with suppress(FileNotFoundError):
                self.world.disk.unlink(f"{self.root}/{path}")
        for directory in {path.rpartition("/")[0] for path in paths}:
            with suppress(OSError):
                self.world.disk.rmdir(f"{self.root}/{directory}")

    def writer(self) -> None:
        return None

    def read_staged(self, spark: Any, staged: Sequence[StateHandle]) -> Any:
        raise Violation("there is no Spark here")

    def describe(self) -> dict[str, Any]:
        return {"type": "SimulatedSink", "path": self.root}


class StagingArea:
    """A sink's staged files as a storage: what savepoints take along, and bring back."""

    def __init__(self, sink: SimulatedSink) -> None:
        self.sink = sink
        self.url = f"disk:/{sink.root}"

    def read(self, path: str) -> bytes:
        self.sink.world.point(f"reads {path} of {self.sink.name}")
        file = self.sink.world.disk.find(f"{self.sink.root}/{path}")
        if file is None:
            raise StateIntegrityError(f"{path} is gone")
        return json.dumps(file.content).encode()

    def copy(self, file: StateHandle, source: CheckpointStorage, path: str, keep: Callable[[], None]) -> None:
        keep()
        content = source.read(file.path)
        if sha256(content).hexdigest() != file.checksum:
            raise StateIntegrityError(f"{file.path} is damaged")
        self.sink.world.point(f"copies {path} to {self.sink.name}")
        self.sink.world.disk.write(f"{self.sink.root}/{path}", tuple(map(tuple, json.loads(content))), len(content))
        self.sink.world.point(f"has copied {path}")

    def verify(self, files: Sequence[StateHandle], in_full: Collection[str]) -> None:
        self.sink.verify(files, in_full)


def _partitions(directory: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {int(name.partition("=")[2]): directory[name] for name in directory if name.startswith("checkpoint=")}
