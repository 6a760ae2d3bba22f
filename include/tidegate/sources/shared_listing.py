"""One listing of a source's directory for all splits of a checkpoint. It also tells whether the source has ended, and
which files were found by links.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.protocol.facts.errors import SourceChangedError
from tidegate.sources.changed import shown_time
from tidegate.sources.directory import Directory
from tidegate.sources.links import refuse_links
from tidegate.sources.listing import Listing, in_reading_order
from tidegate.sources.selection import Selection, takes_none

if TYPE_CHECKING:
    from tidegate.sources.files import FileSource

log = logging.getLogger("tidegate")


class SharedListing:
    """Lists the files of a source. It is not a position, which is in the snapshots, and may be lost."""

    def __init__(self, source: "FileSource", selection: Selection) -> None:
        self._source = source
        self._selection = selection
        self._listing: Listing | None = None
        self._listed_for: set[tuple[int, int]] = set()
        self._has_checked = False
        self.found_by: Mapping[str, str] = {}  # the names of links that led to files
        self.ended = False

    def once(self, split: int, checkpoint_id: int) -> Listing:
        """Return one listing for all splits of a checkpoint. A split that repeats its request gets a new one."""
        served = {split_ for id_, split_ in self._listed_for if id_ == checkpoint_id}
        if self._listing is None or not served or split in served:
            listing = self._list()
            if self._listing is None or not listing.is_same(self._listing):
                self._listing = listing  # an equal listing is kept, with the results of its last comparison
            served = set()
        self._listed_for = {(checkpoint_id, split_) for split_ in (*served, split)}
        return self._listing

    def is_selected(self, path: str) -> bool:
        return self._selection.takes(path, self.found_by.get(path))

    def _list(self) -> Listing:
        """List the files, after the search for the marker, so that the listing has every file written before it."""
        source = self._source
        directory = Directory(source.location)
        marker = None if source.end_marker is None else directory.current([source.end_marker])[0]
        listing = directory.files(source.recursive, source.follow_links)
        self.found_by = listing.found_by
        refuse_links(source.location, listing.links, self.is_selected)
        self._warn_if_none_is_taken(listing)
        self.ended = marker is not None
        later = [] if marker is None else listing.take((listing.mtimes > marker.mtime_ns).nonzero()[0]).versions()
        late = in_reading_order(file for file in later if self.is_selected(file.path))
        if marker is not None and late:
            times = [shown_time(file.mtime_ns) for file in (late[0], marker)]
            raise SourceChangedError(
                f"{source.location}/{late[0].path} was modified {times[0]}, after the end marker {marker.path} "
                f"({times[1]}), which ends the source ({len(late)} such files). Nothing was read. If the "
                "file belongs to the source, write the marker again, after all files; otherwise move the file away. "
                "Then run again."
            )
        return listing

    def _warn_if_none_is_taken(self, listing: Listing) -> None:
        """Log a warning once a run. Nearly always one of the first files is taken."""
        if self._has_checked or not len(listing.paths):
            return
        self._has_checked = True
        for paths in (listing.paths[:1000], listing.paths):
            sentence = takes_none(self._source.location, paths.to_pylist(), self.found_by, self._selection)
            if sentence is None:
                return
        log.warning("%s", sentence)
