"""Find the files that completed checkpoints refer to, and verify their content.

Handles of a completed checkpoint never change, so they are read without the pipeline's lock. Other processes do not
wait, however many checkpoints are retained.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tidegate.coordination.context import DefinedContext
from tidegate.protocol.cleaning.clean_report import Cost, Damage
from tidegate.protocol.facts.errors import MetadataError, StateIntegrityError
from tidegate.protocol.facts.names import STORAGE, staged_by
from tidegate.protocol.facts.paths import marker_path, metadata_path
from tidegate.protocol.facts.records import CheckpointRecord, Deletion, StateHandle
from tidegate.protocol.recovery.lost_database import require_as_marked
from tidegate.protocol.recovery.marker import read_marker
from tidegate.protocol.recovery.metadata import read_metadata
from tidegate.protocol.steps.finalize import choose_sample, referred_files
from tidegate.protocol.steps.notify import committables

Handles = Mapping[Deletion, StateHandle]
Verify = Callable[[Sequence[StateHandle], Collection[str]], None]


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification. `read` are the files that were compared with their checksums."""

    read: Cost
    damage: Sequence[Damage]


class KeptFiles:
    """The files of one pipeline's retained checkpoints."""

    def __init__(self, context: DefinedContext) -> None:
        self._context = context
        #: Tables of current rows show a checkpoint by its staged files. Those of other sinks are the tables.
        self._sinks = {v.operator_id: v.sink for v in context.graph.sinks if v.operator_id in context.graph.restaged}

    def of(self, checkpoint_id: int) -> dict[Deletion, StateHandle]:
        """Return the files that a restore to the checkpoint needs: state, positions, and the rows of tables of current
        rows."""
        subtasks = self._context.store.subtasks(self._context.pipeline_id, checkpoint_id)
        files = {
            Deletion(STORAGE, handle.path): handle
            for handle in referred_files(known.snapshot for known in subtasks.values())
        }
        for operator_id in self._sinks:
            files |= {
                Deletion(staged_by(operator_id), handle.path): handle for handle in committables(subtasks, operator_id)
            }
        return files

    def verify(self, records: Sequence[CheckpointRecord], files: Mapping[int, Handles], turn: int) -> Verified:
        """Check that every file exists with its full length, and compare the sample of this turn with its checksums.
        Every `_metadata` is read. Raises `StorageError`."""
        read: list[StateHandle] = []
        damage: list[Damage] = []
        for owner, verify in self._owners():
            owned = {file.path: h for handles in files.values() for file, h in handles.items() if file.owner == owner}
            in_full = choose_sample(turn, list(owned.values()))
            read += [handle for path, handle in owned.items() if path in in_full]
            for path, problem in _find_damaged(list(owned.values()), in_full, verify):
                ids = sorted(id_ for id_, handles in files.items() if Deletion(owner, path) in handles)
                damage.append(Damage(path, problem, tuple(ids)))
        for record in records:
            if (wrong := self._find_wrong_metadata(record)) is not None:
                path = metadata_path(self._context.pipeline_id, record.checkpoint_id)
                damage.append(Damage(path, wrong, (record.checkpoint_id,)))
        return Verified(Cost(len(read), sum(handle.bytes for handle in read)), damage)

    def _owners(self) -> list[tuple[str, Verify]]:
        sinks = [(staged_by(operator_id), sink.verify) for operator_id, sink in self._sinks.items()]
        return [(STORAGE, self._context.storage.verify), *sinks]

    def _find_wrong_metadata(self, record: CheckpointRecord) -> str | None:
        """Return the problem of a checkpoint's `_metadata`, which `recover` needs when the database is lost, although a
        restore does not. A missing marker is no damage: it is written after the commit."""
        checkpoint_id = record.checkpoint_id
        try:
            content = self._context.storage.read(metadata_path(self._context.pipeline_id, checkpoint_id))
            read_metadata(self._context.pipeline_id, checkpoint_id, content)
            with suppress(StateIntegrityError):
                written = self._context.storage.read(marker_path(self._context.pipeline_id, checkpoint_id))
                require_as_marked(read_marker(self._context.pipeline_id, checkpoint_id, written), content)
        except (MetadataError, StateIntegrityError) as error:
            return str(error)
        return None


def _find_damaged(files: Sequence[StateHandle], in_full: Collection[str], verify: Verify) -> list[tuple[str, str]]:
    """Return path and problem of each damaged file. Files are verified one by one only if any is damaged."""
    try:
        verify(files, in_full)
    except StateIntegrityError:
        return [problem for handle in files for problem in _problems_of(handle, in_full, verify)]
    return []


def _problems_of(handle: StateHandle, in_full: Collection[str], verify: Verify) -> list[tuple[str, str]]:
    try:
        verify([handle], in_full)
    except StateIntegrityError as error:
        return [(handle.path, str(error))]
    return []
