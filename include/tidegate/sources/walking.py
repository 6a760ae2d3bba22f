"""Names, sizes and times of modification of all files below a directory.

Most of what a listing of a local disk takes is asking for each file, one after another. So a local directory is asked
for names first, and threads ask for many files at once. Elsewhere a listing has all of it, by the page.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING

from tidegate.sources.arrow_columns import strings
from tidegate.sources.links import follow, is_below, resolve
from tidegate.sources.listing import Listing, joined
from tidegate.sources.names import is_hidden

if TYPE_CHECKING:
    import pyarrow.fs as pafs

_AT_ONCE = 4  # more of them wait for one another: they share the interpreter
_IN_ONE_REQUEST = 4000


def files_below(filesystem: "pafs.FileSystem", root: str, recursive: bool, follow_links: bool = False) -> Listing:
    """At any depth or directly in it, finished or not. What disappears meanwhile is left out.

    A link is passed over if what it leads to is listed under its own name. Others are followed, or reported.

    Raises `OSError` if something cannot be listed, `UnicodeError` if a name is not text.
    """
    from pyarrow import fs

    if filesystem.type_name == "local":
        return _below_local(filesystem, root, recursive, follow_links)
    selector = fs.FileSelector(root, recursive=recursive, allow_not_found=True)
    infos = [info for info in filesystem.get_file_info(selector) if info.is_file]
    return _found([info.path[len(root) + 1 :] for info in infos], infos)


def _below_local(filesystem: "pafs.FileSystem", root: str, recursive: bool, follow_links: bool) -> Listing:
    """A level of directories after the other."""
    parts: list[Listing] = []
    directories = [""]
    links: list[str] = []

    def stat(paths: Sequence[str]) -> tuple[Listing, list[str]]:
        return _stat(filesystem, root, paths)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while directories:
            batches = _batches(chain.from_iterable(_entries(root, directory, links) for directory in directories))
            # The first is looked at here: nearly always it is all there is, and needs no thread.
            statted = [stat(next(batches, ())), *pool.map(stat, batches)]
            parts += [found for found, _ in statted]
            directories = [f"{path}/" for _, below in statted for path in below] if recursive else []
    seen = [(f"{root}/{path}", path) for path in links if not is_hidden(path)]
    away = tuple(resolve(root, seen, recursive, is_hidden)) if seen else ()
    if not follow_links:
        return replace(joined(parts), links=away)
    found_by = follow(root, away, is_hidden)
    more = [path for path in found_by if not is_below(path) or not (recursive or "/" not in path)]
    return replace(joined([*parts, _stat(filesystem, root, more)[0]]), found_by=found_by)


def _entries(root: str, directory: str, links: list[str]) -> list[str]:
    """What lies in it. Links are added to `links` instead."""
    names: list[str] = []
    try:
        with os.scandir(f"{root}/{directory}") as entries:
            for entry in entries:
                (links if entry.is_symlink() else names).append(directory + entry.name)
    except FileNotFoundError:
        return []
    return names


def _batches(paths: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(paths, _IN_ONE_REQUEST)):
        yield batch


def _stat(filesystem: "pafs.FileSystem", root: str, paths: Sequence[str]) -> tuple[Listing, list[str]]:
    """The files among these paths, and the directories."""
    from pyarrow import fs

    infos = filesystem.get_file_info([f"{root}/{path}" for path in paths])
    # Files alone have a size. To ask for the type takes ten times as long.
    files = [row for row, info in enumerate(infos) if info.size is not None]
    if len(files) == len(infos):
        return _found(paths, infos), []
    both = zip(paths, infos, strict=True)
    directories = [path for path, info in both if info.size is None and info.type is fs.FileType.Directory]
    return _found([paths[row] for row in files], [infos[row] for row in files]), directories


def _found(paths: Iterable[str], infos: Sequence["pafs.FileInfo"]) -> Listing:
    """A pass a column is several times as fast as a pass over files."""
    import numpy as np

    sizes = np.fromiter(map(attrgetter("size"), infos), np.int64, len(infos))
    return Listing(strings(paths), sizes, np.array([info.mtime_ns or 0 for info in infos], np.int64))
