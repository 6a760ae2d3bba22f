"""The staging area of a sink: writes, lists and deletes its files.

They are `_staging/chk-<id>/<file>` below the sink's root, or in another folder if files stay where they are staged. The
root is a directory on any storage that `tidegate.state.storage` opens.
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
    """Return the path, which must be that of a staged file. Raise `SinkError`."""
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
    """Write a Parquet file from an executor and read it back, so that a reported file is known to be readable. Its
    content is never in memory as a whole. Raise `StorageError`, `StateIntegrityError`, and the errors of `write`."""
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
            f"Rows of checkpoint {id_} could not be staged below {root}, so none of them became visible, and "
            f"the table that readers see is unchanged. {error}"
        ) from error
    handle = StateHandle(path, HandleKind.STAGED, rows, file.size, file.checksum(), id_, details=details or {})
    storage.verify([handle], [path])
    return handle


def staged_checkpoints(storage: CheckpointStorage, folder: str = STAGING) -> list[int]:
    """Return the checkpoints that have staged files, oldest first."""
    directories = {path.split("/")[1] for path in storage.list(folder)}
    return sorted(id_ for name in directories if (id_ := checkpoint_id_of(name)) is not None)


def staged_paths(storage: CheckpointStorage, checkpoint_id: int, folder: str = STAGING) -> list[str]:
    """Return every file in the checkpoint's staging, acknowledged or not, relative to the root."""
    return storage.list(staging_of(checkpoint_id, folder))


def discard(storage: CheckpointStorage, paths: Sequence[str], folder: str = STAGING) -> None:
    """Delete staged files. Missing ones are ignored. Raise `SinkError` for a path outside staging."""
    files = [confined(path, folder) for path in paths]
    try:
        storage.delete(files)
    except StorageError as error:
        raise SinkError(
            f"A staged file that nothing needs any more could not be deleted: {error} Readers are not affected, and "
            "the deletion is tried again later."
        ) from error
