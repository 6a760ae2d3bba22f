"""Metadata files on Tidegate's own storage. They are written as a whole and durably before the database refers to them,
with credentials from the environment."""

import io
from typing import TYPE_CHECKING, Any

# Imported for its type only: pyiceberg is an extra, and this module is loaded where it is needed.
from pyiceberg.io import FileIO, InputFile, OutputFile

from tidegate.state.storage import ArrowCheckpointStorage, open_storage

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


def location(url: str) -> str:
    """Return a directory as other programs write it: a plain path becomes `file://`."""
    return url if "://" in url else f"file://{url}"


def opened(file: str) -> tuple[ArrowCheckpointStorage, str]:
    """Return the storage that has this file, and the file's name there."""
    directory, _, name = file.removeprefix("file://").rpartition("/")
    return open_storage(directory), name


class StoredFiles(FileIO):
    """pyiceberg's access to files. Content is held in memory: no metadata file is large."""

    def new_input(self, location: str) -> "Stored":
        return Stored(location)

    def new_output(self, location: str) -> "Written":
        return Written(location)

    def delete(self, location: Any) -> None:
        storage, name = opened(getattr(location, "location", location))
        storage.delete([name])


class Stored(InputFile):
    def __len__(self) -> int:
        return len(self._content)

    def exists(self) -> bool:
        storage, name = opened(self.location)
        return storage.marked(name) is not None

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._content)

    @property
    def _content(self) -> bytes:
        storage, name = opened(self.location)
        return storage.read(name)


class _Stream(io.BytesIO):
    """A buffer that becomes the file when it is closed, unless an error ends it."""

    def __init__(self, file: "Written") -> None:
        super().__init__()
        self._file = file

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            super().close()

    def close(self) -> None:
        if not self.closed:
            self._file.content = self.getvalue()
            super().close()  # first: if the write fails, no later close repeats it
            storage, name = opened(self._file.location)
            storage.write(name, self._file.content)

    def __del__(self) -> None:
        super().close()  # the inherited one would write a buffer that was never closed


class Written(OutputFile):
    content = b""

    def __len__(self) -> int:
        return len(self.content)

    def exists(self) -> bool:
        return False  # every file has a new name

    def to_input_file(self) -> Stored:
        return Stored(self.location)

    def create(self, overwrite: bool = False) -> Any:
        return _Stream(self)


def read_metadata(file: str) -> "TableMetadata":
    """Read the metadata of a table from its file."""
    from pyiceberg.serializers import FromInputFile

    return FromInputFile.table_metadata(Stored(file))


def write_metadata(metadata: "TableMetadata", file: str) -> None:
    from pyiceberg.serializers import ToOutputFile

    ToOutputFile.table_metadata(metadata, Written(file))
