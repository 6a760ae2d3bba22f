"""Which files a table refers to, and the deletion of those that it does not any more."""

from collections.abc import Collection, Sequence

from tidegate.iceberg.files import location as location_of
from tidegate.iceberg.files import opened
from tidegate.iceberg.reach import files_of


def referenced(root: str, location: str, paths: Sequence[str]) -> list[str]:
    """Those of the files below a root that the table refers to in any snapshot."""
    reach, place = files_of(location), location_of(root)
    return [path for path in paths if f"{place}/{path}" in reach.data or f"{place}/{path}" in reach.metadata]


def delete(root: str, location: str, files: Collection[str]) -> list[str]:
    """Delete files that the table has given up, unless it refers to one of them again. Others' places are theirs.
    Returns the files that are gone, or no matter of this one's."""
    if not files:
        return []
    reach, place = files_of(location), f"{location_of(root)}/"
    gone = [file for file in files if file not in reach.data and file not in reach.metadata]
    for file in gone:
        if file.startswith(place):
            storage, name = opened(file)
            storage.delete([name])
    return gone
