"""Links in a source's directory: their targets, and the check that an opened file is still where it was listed.

A file's path is its real one, relative to the source's directory: `../elsewhere/1.csv` if it is outside. So it is the
same file by whatever link it is reached. Only local directories have links.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidegate.protocol.facts.errors import ConfigurationError, SourceChangedError

if TYPE_CHECKING:
    import pyarrow.fs as pafs


class Link(NamedTuple):
    """A link whose target is not read under a name of its own. Both are relative to the source's directory."""

    path: str
    target: str
    is_directory: bool


def resolve(
    root: str, links: Iterable[tuple[str, str]], recursive: bool, is_hidden: Callable[[str], bool]
) -> list[Link]:
    """Return those of these links whose target is not read under a name of its own, in order. Each is given by its path
    and by the name under which it was found."""
    found = []
    for where, name in sorted(links):
        real = os.path.realpath(where)
        is_directory = os.path.isdir(real)
        if (is_directory and not recursive) or not (is_directory or os.path.isfile(real)):
            continue
        target = os.path.relpath(real, os.path.realpath(root))
        is_listed = is_below(target) and (target == "." or not is_hidden(target)) and (recursive or "/" not in target)
        if not is_listed:
            found.append(Link(name, target, is_directory))
    return found


def refuse_links(location: str, links: Sequence[Link], is_selected: Callable[[str], bool]) -> None:
    """Raise `ConfigurationError` if one of these links may lead to a file that the source would read."""
    for link in links:
        if link.is_directory or is_selected(link.path):
            raise ConfigurationError(
                f"{location}/{link.path} is a link to {place_of(location, link.target)}, which is not read under a "
                "name of its own, so nothing was read. Otherwise any user who may write to the directory could make "
                "the pipeline read any file of this machine. Remove the link, deliver the file itself, or let the "
                "source read the targets of its links: FileSource(…, follow_links=True). Then run again."
            )


def follow(root: str, links: Sequence[Link], is_hidden: Callable[[str], bool]) -> dict[str, str]:
    """Return the files that these links lead to, at any depth, each with the name under which it was found. No
    directory is entered twice, by whatever name it is reached."""
    files: dict[str, str] = {}
    real_root = os.path.realpath(root)
    entered = {real_root}
    waiting = deque(links)
    while waiting:
        link = waiting.popleft()
        if not link.is_directory:
            files.setdefault(link.target, link.path)
            continue
        directories = [(os.path.normpath(f"{real_root}/{link.target}"), link.path)]
        while directories:
            directory, name = directories.pop()
            if directory in entered:
                continue
            entered.add(directory)
            links_here = []
            for entry in _visible(directory, is_hidden):
                if entry.is_symlink():
                    links_here.append((entry.path, f"{name}/{entry.name}"))
                elif entry.is_dir():
                    directories.append((entry.path, f"{name}/{entry.name}"))
                elif entry.is_file():
                    files.setdefault(os.path.relpath(entry.path, real_root), f"{name}/{entry.name}")
            waiting += resolve(root, links_here, True, is_hidden)
    return files


def _visible(directory: str, is_hidden: Callable[[str], bool]) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(directory) as entries:
            return sorted((entry for entry in entries if not is_hidden(entry.name)), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def is_below(target: str) -> bool:
    """Whether a path that is relative to the source's directory stays in it."""
    return target != ".." and not target.startswith("../")


def place_of(location: str, path: str) -> str:
    """Return the path of a file without `..`, which Hadoop and others would take for a name."""
    return os.path.realpath(f"{location}/{path}") if not is_below(path) else f"{location}/{path}"


def moved_away(filesystem: "pafs.FileSystem", root: str, paths: Iterable[str]) -> list[str]:
    """Return those of these files that are now reached through a link, and so may be other files than were listed."""
    if filesystem.type_name != "local":
        return []
    real_root, known = os.path.realpath(root), dict[str, bool]()

    def is_real(directory: str) -> bool:
        if directory not in known:
            whole = os.path.normpath(f"{real_root}/{directory}")
            known[directory] = os.path.realpath(whole) == whole
        return known[directory]

    return [path for path in paths if not is_real(path.rpartition("/")[0]) or os.path.islink(f"{real_root}/{path}")]


def require_as_listed(filesystem: "pafs.FileSystem", root: str, path: str, name: str) -> None:
    """Check a file before and after it is opened. Raise `SourceChangedError` if its path now leads through a link: any
    user with write access to the directory could have any file read. `name` is for the error."""
    if moved_away(filesystem, root, [path]):
        raise is_a_link_now(name)


def is_a_link_now(name: str) -> SourceChangedError:
    return SourceChangedError(
        f"{name} was a file of its own when this checkpoint listed it, and is reached through a link now. This "
        "checkpoint has no effect; positions, state and tables are as before. Put the file where the link is, or "
        "remove the link, then run again."
    )
