"""The checkpoint storage together with the files of a savepoint's directory, for comparing the two."""

from collections.abc import Collection

from tidegate.ports import CheckpointStorage


class OverlaidStorage:
    """A `ports.ReadableStorage`: `paths` from `there`, all others from `here`."""

    def __init__(self, here: CheckpointStorage, there: CheckpointStorage, paths: Collection[str]) -> None:
        self.url = here.url
        self._here = here
        self._there = there
        self._paths = paths

    def read(self, path: str) -> bytes:
        return (self._there if path in self._paths else self._here).read(path)
