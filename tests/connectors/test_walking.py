"""Which files are found below a directory, by threads on a local disk. No Spark."""

import os
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from tidegate.sources import walking
from tidegate.sources.listing import Listing
from tidegate.sources.walking import files_below

LOCAL = pafs.LocalFileSystem()


def rows(found: Listing) -> list[tuple[str, int, int]]:
    return list(zip(found.paths.to_pylist(), found.sizes.tolist(), found.mtimes.tolist(), strict=True))


def listed_by_arrow(root: Path, recursive: bool) -> list[tuple[str, int, int]]:
    """Which follows links, to files that are listed under their own names as well."""
    infos = LOCAL.get_file_info(pafs.FileSelector(str(root), recursive=recursive))
    found = ((os.path.relpath(info.path, root), info.size, info.mtime_ns) for info in infos if info.is_file)
    return sorted(row for row in found if not row[0].startswith("a/linked/"))


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files at three depths, empty directories, and what is neither a file nor a directory; many requests for them."""
    monkeypatch.setattr(walking, "_IN_ONE_REQUEST", 3)
    root = tmp_path / "tree"
    for number in range(40):
        path = root / ("a/b/c", "a", "d é", "")[number % 4] / f"{number}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * number)
        os.utime(path, ns=(1, 10**18 + number))
    (root / "empty" / "too").mkdir(parents=True)
    os.mkfifo(root / "a" / "fifo")
    (root / "a" / "linked").symlink_to(root / "d é", target_is_directory=True)
    (root / "a" / "nowhere").symlink_to(root / "missing")
    return root


@pytest.mark.parametrize("recursive", [True, False])
def test_what_is_found_is_what_arrow_lists(recursive: bool, tree: Path) -> None:
    found = rows(files_below(LOCAL, str(tree), recursive))
    assert sorted(found) == listed_by_arrow(tree, recursive)
    assert len(found) == (40 if recursive else 10)
    assert rows(files_below(LOCAL, str(tree), recursive)) == found  # in the same order


def test_other_filesystems_are_asked_for_a_listing(tree: Path) -> None:
    below = pafs.SubTreeFileSystem(str(tree), LOCAL)
    assert below.type_name != "local"
    found = sorted(rows(files_below(below, "a", True)))
    assert [row for row in found if not row[0].startswith("linked/")] == [
        row for row in listed_by_arrow(tree / "a", True) if not row[0].startswith("linked/")
    ]


def test_an_empty_directory_has_no_files(tmp_path: Path) -> None:
    assert rows(files_below(LOCAL, str(tmp_path), True)) == []


def test_what_disappears_meanwhile_is_left_out(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = walking._entries

    def moved_away(root: str, directory: str, links: list[str]) -> list[str]:
        if directory == "a/b/":
            (tree / "a/b").rename(tree.parent / "archive")
        names = entries(root, directory, links)
        if directory == "d é/":
            (tree / "d é" / "2.csv").unlink()
        return names

    before = [row for row in listed_by_arrow(tree, True) if not row[0].startswith("a/b/") and row[0] != "d é/2.csv"]
    monkeypatch.setattr(walking, "_entries", moved_away)
    assert sorted(rows(files_below(LOCAL, str(tree), True))) == before


def test_a_directory_that_cannot_be_listed_is_an_error(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not one without files: what lies there would be taken for gone."""
    scandir = os.scandir

    def denied(path: str) -> Any:
        if path.endswith("/a/b/"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(walking.os, "scandir", denied)
    with pytest.raises(PermissionError, match="a/b/"):
        files_below(LOCAL, str(tree), True)
