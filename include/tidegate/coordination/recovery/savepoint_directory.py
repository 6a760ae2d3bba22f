"""The directory of a savepoint. Its documents are written once all files exist. A restore reads, verifies and copies
them. Files of another pipeline are verified and copied in the same way."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tidegate.coordination.steps.finalize import described
from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.graph import Graph
from tidegate.ports import CheckpointStorage
from tidegate.protocol.facts.errors import CheckpointError, MetadataError, StateIntegrityError
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.recovery.canonical import (
    MARKER,
    METADATA,
    PARTS,
    Complete,
    FileCopy,
    Savepoint,
    complete,
    complete_document,
    files_of,
    read_complete,
    read_savepoint,
    savepoint_document,
)
from tidegate.protocol.recovery.metadata import Metadata

Refuse = Callable[[str], CheckpointError]


def write_documents(graph: Graph, config: CheckpointConfig, target: CheckpointStorage, metadata: Metadata) -> Complete:
    """Write the documents that make a directory a savepoint, the marker last. Files of executions that died are
    deleted. Return the marker. Raises `StateIntegrityError` if a file is missing, `StorageError`."""
    files = files_of({subtask: known.snapshot for subtask, known in metadata.subtasks.items()})
    target.verify(files, ())
    leftovers = {path for part in PARTS for path in target.list(part)} - {handle.path for handle in files}
    if leftovers:
        target.delete(sorted(leftovers))
    content = json.dumps(savepoint_document(metadata, described(graph), config.describe())).encode()
    target.write(METADATA, content)
    marker = complete(metadata, content)
    target.write(MARKER, json.dumps(complete_document(marker)).encode())
    return marker


class CopiedFiles:
    """Files on `storage` that belong to another pipeline or savepoint. A file that differs from the written one raises
    the error that `refuse` makes of the reason. Raises also `StorageError`."""

    def __init__(self, storage: CheckpointStorage, refuse: Refuse) -> None:
        self.storage = storage
        self._refuse = refuse

    def verify(self, files: Sequence[StateHandle], in_full: bool) -> None:
        """Check that every file exists with its full length, or read it in full."""
        with self._as_written():
            self.storage.verify(files, {handle.path for handle in files} if in_full else ())

    def copy(
        self, copies: Sequence[FileCopy], homes: Mapping[str, CheckpointStorage], keep: Callable[[], None]
    ) -> None:
        """Copy the files to the storages of their owners, and read them back. `keep` is called regularly."""
        for copy in copies:
            home = homes[copy.owner]
            with self._as_written():
                home.copy(copy.handle, self.storage, copy.path, keep)
            home.verify([replace(copy.handle, path=copy.path)], [copy.path])
            keep()

    @contextmanager
    def _as_written(self) -> Iterator[None]:
        try:
            yield
        except (MetadataError, StateIntegrityError) as error:
            reason = str(error).replace(" Nothing was changed.", "")
            raise self._refuse(f"its content has changed, or it no longer exists. {reason}") from error


class SavepointDirectory(CopiedFiles):
    """The directory `url` of a canonical savepoint. `here` may be any storage."""

    def __init__(self, url: str, here: CheckpointStorage, refuse: Refuse) -> None:
        super().__init__(here.elsewhere(url), refuse)

    def read(self) -> Savepoint:
        """Return the contents of the marker and metadata, without reading the files."""
        if MARKER not in self.storage.list(""):
            raise self._refuse(
                f"it has no marker {MARKER}, so it is no canonical savepoint, or is not complete. If writing it was "
                "interrupted, repeat `tidegate savepoint`; if it was copied, copy all of it. A native savepoint is "
                "named with --savepoint NAME"
            )
        with self._as_written():
            return read_savepoint(read_complete(self.storage.read(MARKER)), self.storage.read(METADATA))
