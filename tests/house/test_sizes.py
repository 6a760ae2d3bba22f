"""A file is read in one sitting: no file of ours is longer than 350 lines."""

from pathlib import Path

from cases import for_each

ROOT = Path(__file__).parents[2]
FOLDERS = ("include", "tests", "examples", "benchmarks", "dags", "plugins")
KINDS = {".py", ".js", ".css", ".html"}
LINES = 350


def ours(root: Path) -> list[Path]:
    """What we write: not what others have written and we ship (`vendor`), nor what is made."""
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.suffix in KINDS and not {"vendor", "__pycache__"} & set(path.relative_to(root).parts)
    ]


def too_long(root: Path) -> list[str]:
    return [f"{path}: {lines} lines" for path in ours(root) if (lines := len(path.read_text().splitlines())) > LINES]


@for_each("folder", FOLDERS)
def test_no_file_is_too_long(folder: str) -> None:
    assert (ROOT / folder).is_dir()
    assert too_long(ROOT / folder) == []


def test_a_file_that_is_too_long_is_noticed(tmp_path: Path) -> None:
    for name, lines in (("deep/long.py", LINES + 1), ("fits.py", LINES), ("vendor/theirs.js", LINES + 1)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n" * lines)
    assert too_long(tmp_path) == [f"{tmp_path}/deep/long.py: {LINES + 1} lines"]
