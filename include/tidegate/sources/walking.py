"""Names, sizes and times of modification of all files below a directory.

Most of the time of listing a local disk is spent on requests for single files, one after another. So a local directory
is listed by name first, and threads request the details of many files at once. Other file systems return everything in
pages.
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

_AT_ONCE = 4  # more threads would wait for one another, because they share the interpreter
_IN_ONE_REQUEST = 4000


def files_below(filesystem: "pafs.FileSystem", root: str, recursive: bool, follow_links: bool = False) -> Listing:
    """List files at any depth or directly in a directory, finished or not. Files that disappear meanwhile are left out.

    A link is passed over if its target is listed under its own name. Others are followed, or reported.

    Raise `OSError` if something cannot be listed, `UnicodeError` if a name is not text.
    """
    from pyarrow import fs

    if filesystem.type_name == "local":
        return _below_local(filesystem, root, recursive, follow_links)
    selector = fs.FileSelector(root, recursive=recursive, allow_not_found=True)
    infos = [info for info in filesystem.get_file_info(selector) if info.is_file]
    return _found([info.path[len(root) + 1 :] for info in infos], infos)


def _below_local(filesystem: "pafs.FileSystem", root: str, recursive: bool, follow_links: bool) -> Listing:
    """List one level of directories after the other."""
    parts: list[Listing] = []
    directories = [""]
    links: list[str] = []

    def inspect(paths: Sequence[str]) -> tuple[Listing, list[str]]:
        return _inspected(filesystem, root, paths)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while directories:
            batches = _batches(chain.from_iterable(_entries(root, directory, links) for directory in directories))
            # The first batch is inspected here: nearly always it is the only one, and needs no thread.
            levels = [inspect(next(batches, ())), *pool.map(inspect, batches)]
            parts += [found for found, _ in levels]
            directories = [f"{path}/" for _, below in levels for path in below] if recursive else []
    seen = [(f"{root}/{path}", path) for path in links if not is_hidden(path)]
    away = tuple(resolve(root, seen, recursive, is_hidden)) if seen else ()
    if not follow_links:
        return replace(joined(parts), links=away)
    found_by = follow(root, away, is_hidden)
    more = [path for path in found_by if not is_below(path) or not (recursive or "/" not in path)]
    return replace(joined([*parts, _inspected(filesystem, root, more)[0]]), found_by=found_by)


def _entries(root: str, directory: str, links: list[str]) -> list[str]:
    """Return the names in a directory. Links are added to `links` instead."""
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


def _inspected(filesystem: "pafs.FileSystem", root: str, paths: Sequence[str]) -> tuple[Listing, list[str]]:
    """Return the files among these paths, and the directories."""
    from pyarrow import fs

    infos = filesystem.get_file_info([f"{root}/{path}" for path in paths])
    # Only files have a size. Reading the type takes ten times as long.
    files = [row for row, info in enumerate(infos) if info.size is not None]
    if len(files) == len(infos):
        return _found(paths, infos), []
    both = zip(paths, infos, strict=True)
    directories = [path for path, info in both if info.size is None and info.type is fs.FileType.Directory]
    return _found([paths[row] for row in files], [infos[row] for row in files]), directories


def _found(paths: Iterable[str], infos: Sequence["pafs.FileInfo"]) -> Listing:
    """Build a listing. A pass for each column is several times as fast as a pass over files."""
    import numpy as np

    sizes = np.fromiter(map(attrgetter("size"), infos), np.int64, len(infos))
    return Listing(strings(paths), sizes, np.array([info.mtime_ns or 0 for info in infos], np.int64))
