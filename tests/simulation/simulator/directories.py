"""What an object store's file system does to directories, and who may still be writing in one."""

from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from worlds import MemoryStorage

from simulator.scheduler import require
from tidegate.protocol.facts.errors import StateIntegrityError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import StateHandle

if TYPE_CHECKING:
    from memory_state import PipelineState


class ObjectStore(MemoryStorage):
    """Its files are really written, so that they can be verified."""

    def verify(self, files: Sequence[StateHandle], in_full: Collection[str]) -> None:
        for handle in files:
            content = self.files.get(handle.path)
            if content is None or sha256(content).hexdigest() != handle.checksum:
                raise StateIntegrityError(f"{handle.path} is not what was written")

    def remove_empty(self, directories: Collection[str], removes: Callable[[str], None]) -> None:
        """`removes` is asked for each; what comes to an empty one before it is gone goes too."""
        for directory in sorted(directories):
            empty = not MemoryStorage.list(self, directory)
            removes(directory)
            if empty:
                MemoryStorage.delete(self, MemoryStorage.list(self, directory))


def require_closed(state: "PipelineState", pipeline: str, directory: str) -> None:
    """Nobody whose files may count writes in a directory that is removed, and it is the pipeline's own."""
    require(f"{directory}/".startswith(f"{pipeline}/"), f"{directory} is removed by {pipeline}, whose it is not")
    copying = {id_ for id_, (_, ended_at) in state.imports.items() if ended_at is None}
    if directory == pipeline:
        cancelled = state.pipeline is not None and state.pipeline.status is PipelineStatus.CANCELLED
        require(cancelled and not copying, f"{directory} is removed while the pipeline may go on")
        return
    kind, number = directory.removeprefix(f"{pipeline}/").replace("/", "-").split("-")
    if kind == "chk":
        record = state.checkpoints.get(int(number))
        going = int(number) in copying if record is None else record.status is Status.IN_PROGRESS
    else:
        going = state.region.attempt == int(number) and state.region.seen_at is not None
    require(not going, f"{directory} is removed while somebody writes there")
