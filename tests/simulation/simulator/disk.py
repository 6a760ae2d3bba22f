"""The file system that simulated sinks publish on: `os` and `shutil` as `tidegate.sinks` uses them, in memory.

Every change and every look at a directory is a step that others may come before, and at which its process may die or
stop. What it answers is what POSIX says: renames are whole, a directory that is not empty stays,
what is gone is not found.
"""

import errno
import os
import posixpath
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from simulator.merging import choose_merges
from tidegate.sinks import fencing, merged, publish, rewind, versions


class Directory(dict):
    """Of names to nodes."""

    changed_at = 0  # in nanoseconds, as `utime` has set it


class File:
    """Something immutable that may have several names."""

    def __init__(self, content: Any, size: int, written_at: int) -> None:
        self.content = content
        self.size = size
        self.written_at = written_at


class Link(str):
    """A symbolic link: where it leads."""

    written_at = 0


class SimulatedDisk:
    """One tree for all sinks of a simulated run. `changed` is called with a path after each rename and removal."""

    def __init__(
        self, point: Callable[[str], None], changed: Callable[[str], None], now: Callable[[], datetime]
    ) -> None:
        self.root = Directory()
        self.marks: dict[str, Any] = {}  # by the root of a sink, whose it is
        self._point = point
        self._changed = changed
        self._now = now  # its own clock, which all machines see
        self._noted = 0  # the last of its times that was noted on a directory
        self._writes = 0

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Inside, sinks publish here."""
        names = ("mkdir", "makedirs", "listdir", "rename", "replace", "link", "symlink", "readlink", "unlink", "rmdir")
        calls = {name: getattr(self, name) for name in (*names, "lstat", "stat", "utime", "open", "fsync", "close")}
        path = SimpleNamespace(
            **{name: getattr(posixpath, name) for name in ("join", "dirname", "basename")},
            isdir=self.isdir,
            realpath=self.realpath,
            getsize=lambda path: self.file(path).size,
        )
        system = SimpleNamespace(**calls, path=path, O_RDONLY=os.O_RDONLY)
        with ExitStack() as stack:
            for module in (publish, fencing, rewind, versions, merged):
                stack.enter_context(patch.object(module, "os", system))
            stack.enter_context(patch.object(merged, "choose_merges", choose_merges))
            stack.enter_context(patch.object(fencing, "shutil", SimpleNamespace(rmtree=self.rmtree)))
            yield

    # -- what the test itself does, in no step of anybody

    def write(self, path: str, content: Any, size: int) -> None:
        parent = self.root
        for name in self._parts(path)[:-1]:
            parent = parent.setdefault(name, Directory())
        self._writes += 1
        parent[posixpath.basename(path)] = File(content, size, self._writes)

    def write_into(self, path: str, content: Any, size: int) -> None:
        """The same in a directory that is there."""
        parent, name = self._place(path)
        if name in parent:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        self.write(path, content, size)

    def find(self, path: str) -> Any:
        """What has this name, None if nothing has; a link is not followed."""
        node: Any = self.root
        for name in self._parts(path):
            node = node.get(name) if isinstance(node, dict) else None
        return node

    # -- os

    def mkdir(self, path: str) -> None:
        self._point(f"mkdir {path}")
        parent, name = self._place(path)
        if name in parent:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        parent[name] = Directory()

    def makedirs(self, path: str, exist_ok: bool) -> None:
        parent = posixpath.dirname(path)
        if parent != "/" and not isinstance(self.find(parent), dict):
            self.makedirs(parent, exist_ok)
        with suppress(FileExistsError):  # somebody else was faster
            if not isinstance(self.find(path), dict):
                self.mkdir(path)

    def listdir(self, path: str) -> list[str]:
        self._point(f"listdir {path}")
        return list(self._directory(path))

    def isdir(self, path: str) -> bool:
        self._point(f"isdir {path}")
        return isinstance(self.find(path), dict)

    def realpath(self, path: str) -> str:
        """Of a link itself; no directory on the way to it is one."""
        node = self.find(path)
        return posixpath.join(posixpath.dirname(path), node) if isinstance(node, Link) else path

    def rename(self, source: str, target: str) -> None:
        self._point(f"rename {source} to {target}")
        (parent, name), (to, new) = self._place(source), self._place(target)
        node = self._found(parent, name, source)
        if isinstance(to.get(new), dict) and (to[new] or not isinstance(node, dict)):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", target)
        del parent[name]
        to[new] = node
        self._changed(target)

    replace = rename

    def link(self, source: str, target: str) -> None:
        self._point(f"link {source} to {target}")
        file, (to, new) = self.file(source), self._place(target)
        if new in to:
            raise FileExistsError(errno.EEXIST, "File exists", target)
        to[new] = file

    def symlink(self, leads_to: str, path: str) -> None:
        self._point(f"symlink {path} to {leads_to}")
        parent, name = self._place(path)
        if name in parent:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        self._writes += 1
        parent[name] = link = Link(leads_to)
        link.written_at = self._writes

    def readlink(self, path: str) -> str:
        self._point(f"readlink {path}")
        parent, name = self._place(path)
        node = self._found(parent, name, path)
        if not isinstance(node, Link):
            raise OSError(errno.EINVAL, "Invalid argument", path)
        return str(node)

    def unlink(self, path: str) -> None:
        self._point(f"unlink {path}")
        parent, name = self._place(path)
        self._found(parent, name, path)
        del parent[name]

    def rmdir(self, path: str) -> None:
        self._point(f"rmdir {path}")
        parent, name = self._place(path)
        if self._found(parent, name, path):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        del parent[name]

    def lstat(self, path: str) -> Any:
        parent, name = self._place(path)
        return SimpleNamespace(st_mtime_ns=self._found(parent, name, path).written_at)

    def utime(self, path: str) -> None:
        """Of a directory. No step of its own: the one before is as good for a crash."""
        now = int(self._now().timestamp() * 1e6) * 1000
        # A file system counts nanoseconds: no two commits note the same time, though the simulated clock may stand.
        self._noted = self._noted + 1 if now <= self._noted < now + 1000 else now
        self._directory(path).changed_at = self._noted

    def stat(self, path: str) -> Any:
        return SimpleNamespace(st_mtime_ns=self._directory(path).changed_at)

    def open(self, path: str, flags: int) -> int:
        """Only of directories, to sync them."""
        self._directory(path)
        return 0

    def fsync(self, descriptor: int) -> None: ...
    def close(self, descriptor: int) -> None: ...

    def rmtree(self, path: str, ignore_errors: bool = True) -> None:
        node = self.find(path)
        for name in list(node) if isinstance(node, dict) else ():
            child = posixpath.join(path, name)
            if isinstance(node.get(name), dict):
                self.rmtree(child)
            else:
                self._ignoring(self.unlink, child)
        self._ignoring(self.rmdir, path)
        self._changed(path)

    # -- inside

    def _ignoring(self, step: Callable[[str], None], path: str) -> None:
        with suppress(OSError):
            step(path)

    def _parts(self, path: str) -> list[str]:
        return [name for name in path.split("/") if name]

    def _place(self, path: str) -> tuple[Directory, str]:
        return self._directory(posixpath.dirname(path)), posixpath.basename(path)

    def _directory(self, path: str) -> Directory:
        node = self.find(path)
        if not isinstance(node, dict):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return node

    def file(self, path: str) -> File:
        node = self.find(path)
        if not isinstance(node, File):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return node

    def _found(self, parent: Directory, name: str, path: str) -> Any:
        if name not in parent:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return parent[name]
