"""Settings from the environment: the project's home, the checkpoint storage, the local cache, and the names of
locations. They are read at each call.

`TIDEGATE_HOME`      root of relative paths in sources and sinks; default: the current directory
`TIDEGATE_STORAGE`   checkpoint storage, a path or URL (file, s3, gs, hdfs); default: HOME/.tidegate/checkpoints
`TIDEGATE_CACHE`     local directory for copies of state, on driver and executors; default: on each machine the
                     user's own (see `tidegate.state.private_directories`). It can be deleted at any time.
`TIDEGATE_SHORTCUTS` the shortcuts past a library's public interface that are used (see `shortcuts`); default: all
`TIDEGATE_DOCS`      directory of validation reports; default: HOME/.tidegate/docs
`TIDEGATE_DATABASE_URL`  the metadata database (see `tidegate.embedded_postgres.locate`)
`TIDEGATE_DATABASE_DIRECT_URL`  the same one without the pooler that the first URL leads to
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

#: The names for `TIDEGATE_SHORTCUTS`: `session` (the start of Spark SQL), `reading` (of small input), `tables`
#: (changes of tables in a REST catalog), `validation` (without Spark, or in one job).
SHORTCUTS = frozenset({"reading", "session", "tables", "validation"})


@dataclass(frozen=True, slots=True)
class Settings:
    home: Path
    storage: str
    cache: str | None
    docs: Path
    shortcuts: frozenset[str] = SHORTCUTS

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "Settings":
        env = os.environ if environment is None else environment
        home = _home(env)
        return cls(
            home=home,
            storage=resolve(env.get("TIDEGATE_STORAGE") or ".tidegate/checkpoints", home),
            cache=env.get("TIDEGATE_CACHE") or None,
            docs=Path(env.get("TIDEGATE_DOCS") or home / ".tidegate" / "docs"),
            shortcuts=_words(env.get("TIDEGATE_SHORTCUTS")),
        )


def _words(given: str | None) -> frozenset[str]:
    """Split the setting into words. `none` stands for no word, and an empty setting for all."""
    words = frozenset(word.strip() for word in (given or "").split(",") if word.strip())
    return (words or SHORTCUTS) - {"none"}


def _home(environment: Mapping[str, str]) -> Path:
    return _resolved(os.path.abspath(environment.get("TIDEGATE_HOME") or os.curdir))


@lru_cache(maxsize=16)
def _resolved(path: str) -> Path:
    """Resolve links, with a cache: each part of a path takes a system call, and connectors resolve their location very
    often."""
    return Path(path).resolve()


def is_project(environment: Mapping[str, str] | None = None) -> bool:
    """Whether TIDEGATE_HOME is set, or the pyproject.toml of the current directory makes it a Tidegate project."""
    env = os.environ if environment is None else environment
    if env.get("TIDEGATE_HOME"):
        return True
    try:
        return bool(project_table(Settings.from_environment(env).home))
    except tomllib.TOMLDecodeError:
        return False


def project_table(home: Path) -> dict[str, Any]:
    """Read `[tool.tidegate]` of the pyproject.toml in a project's home; empty if there is none. Raises
    `tomllib.TOMLDecodeError`."""
    path = home / "pyproject.toml"
    document = tomllib.loads(path.read_text()) if path.exists() else {}
    table: dict[str, Any] = document.get("tool", {}).get("tidegate", {})
    return table


def resolve(path: str, home: Path | None = None) -> str:
    """Resolve a path or URL as written by the user. Relative paths are below the project's home."""
    if "://" in path:
        return path
    return str((home or _home(os.environ)) / path)


def absolute(path: str) -> str:
    """Resolve a path or URL as written by the user, without `.`, `..` and trailing slashes. `file://` becomes a plain
    path.

    A URL's path is not decoded: `%20` is three characters.
    """
    location = resolve(path.removeprefix("file://"))
    return location.rstrip("/") if "://" in location else os.path.normpath(location)


def relative_to_home(location: str, home: str) -> str:
    """Return an absolute location in the form that identifies a pipeline: relative to the project's home if below
    it."""
    if "://" in location:
        return location
    for path in (location, os.path.realpath(location)):
        if path.startswith(home.rstrip("/") + "/"):
            return os.path.relpath(path, home)
    return location


def spark_path(location: str) -> str:
    """Escape an absolute path or URL for Spark's readers, which would expand patterns in it.

    With the expansion switched off (`__globPaths__`), Spark 4.2 reads a file several times if there is more than one.
    """
    url = location if "://" in location else f"file://{location}"
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", url.replace("s3://", "s3a://", 1))
