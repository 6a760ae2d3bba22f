"""Where a sink stages: `_staging/chk-<id>/<file>` below its root, or in another folder if files stay where they are
staged. Lists these files, and deletes them.

The root is a directory on any storage that `tidegate.state.storage` opens.
"""

from collections.abc import Sequence

from tidegate.ports import CheckpointStorage
from tidegate.protocol.facts.errors import SinkError, StorageError
from tidegate.protocol.facts.paths import checkpoint_id_of, checkpoint_name

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
