"""Where a sink stages: `_staging/chk-<id>/<file>` below its root, or in another folder if files stay where they are
staged. Writes, lists and deletes these files.

The root is a directory on any storage that `tidegate.state.storage` opens.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.ports import CheckpointStorage, StageContext
from tidegate.protocol.facts.errors import SinkError, StorageError
from tidegate.protocol.facts.paths import attempt_prefix, checkpoint_id_of, checkpoint_name
from tidegate.protocol.facts.records import HandleKind, StateHandle

if TYPE_CHECKING:
    from tidegate.state.hashing_file import HashingFile

STAGING = "_staging"


def staging_of(checkpoint_id: int, folder: str = STAGING) -> str:
    return f"{folder}/{checkpoint_name(checkpoint_id)}"


def confined(path: str, folder: str = STAGING) -> str:
    """The path, which must be of a staged file. Raises `SinkError`."""
    first, _, rest = path.partition("/")
    checkpoint, _, name = rest.partition("/")
    staged = first == folder and checkpoint_id_of(checkpoint) is not None
    if not staged or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise SinkError(
            f"{path!r} is not a path in a sink's staging ({folder}/chk-<id>/<file>), so it was not touched. The "
            "checkpoint's record is damaged, or was written by another version."
        )
    return path


def stage(
    root: str,
    write: "Callable[[HashingFile], None]",
    rows: int,
    context: StageContext,
    folder: str = STAGING,
    suffix: str = "",
    details: Mapping[str, Any] | None = None,
) -> StateHandle:
    """Write a Parquet file and read it back, from an executor: what is reported from here on is what readers will see.
    Its content is nowhere in memory as a whole. Raises `StorageError`, `StateIntegrityError`, and what `write` does."""
    # pyarrow is heavy and this module is imported when Airflow parses a DAG.
    from tidegate.state.hashing_file import HashingFile
    from tidegate.state.storage import open_storage

    name = f"{attempt_prefix(context.subtask_index, context.attempt)}-{context.unique}{suffix}.parquet"
    path, id_ = f"{staging_of(context.checkpoint_id, folder)}/{name}", context.checkpoint_id
    try:
        storage = open_storage(root)
        with storage.open_output(path) as opened:
            file = HashingFile(opened)
            write(file)
    except StorageError as error:
        raise StorageError(
            f"Rows of checkpoint {id_} could not be staged below {root}, so none of them became visible; what readers "
            f"see is unchanged. {error}"
        ) from error
    handle = StateHandle(path, HandleKind.STAGED, rows, file.size, file.checksum(), id_, details=details or {})
    storage.verify([handle], [path])
    return handle


def staged_checkpoints(storage: CheckpointStorage, folder: str = STAGING) -> list[int]:
    """The checkpoints of which files are staged, oldest first."""
    directories = {path.split("/")[1] for path in storage.list(folder)}
    return sorted(id_ for name in directories if (id_ := checkpoint_id_of(name)) is not None)


def staged_paths(storage: CheckpointStorage, checkpoint_id: int, folder: str = STAGING) -> list[str]:
    """Every file in the checkpoint's staging, acknowledged or not, relative to the root."""
    return storage.list(staging_of(checkpoint_id, folder))


def discard(storage: CheckpointStorage, paths: Sequence[str], folder: str = STAGING) -> None:
    """Delete staged files; missing ones are ignored. Raises `SinkError`; paths outside staging are refused."""
    files = [confined(path, folder) for path in paths]
    try:
        storage.delete(files)
    except StorageError as error:
        raise SinkError(
            f"A staged file that nothing needs any more could not be deleted: {error} Readers are not affected, and "
            "the deletion is tried again later."
        ) from error
