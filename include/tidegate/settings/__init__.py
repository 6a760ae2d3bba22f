"""Where things are: the project's home, the checkpoint storage, the local cache, and how a connector's location is
named. Read from the environment when asked.

`TIDEGATE_HOME`      root of relative paths in sources and sinks; default: the current directory
`TIDEGATE_STORAGE`   checkpoint storage, a path or URL (file, s3, gs, hdfs); default: HOME/.tidegate/checkpoints
`TIDEGATE_CACHE`     local directory for copies of state, on driver and executors; default: on each machine the
                     user's own (see `tidegate.state.private_directories`). It is a cache and nothing more.
`TIDEGATE_SHORTCUTS` which shortcuts round a library's public way are taken (see `shortcuts`); default: all
`TIDEGATE_DOCS`      where validation reports are built; default: HOME/.tidegate/docs
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

#: What `TIDEGATE_SHORTCUTS` may name: when Spark SQL begins, how small input is read, how data is judged, how tables of
#: a REST catalog change.
SHORTCUTS = frozenset({"judging", "reading", "session", "tables"})


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
    """`none` stands for no word, and nothing for all."""
    words = frozenset(word.strip() for word in (given or "").split(",") if word.strip())
    return (words or SHORTCUTS) - {"none"}


def _home(environment: Mapping[str, str]) -> Path:
    return _resolved(os.path.abspath(environment.get("TIDEGATE_HOME") or os.curdir))


@lru_cache(maxsize=16)
def _resolved(path: str) -> Path:
    """To follow links takes a call of the system for each part, and connectors name their location all the time."""
    return Path(path).resolve()


def is_project(environment: Mapping[str, str] | None = None) -> bool:
    """Whether somebody has said that this is a project of ours: by TIDEGATE_HOME, or in its pyproject.toml."""
    env = os.environ if environment is None else environment
    if env.get("TIDEGATE_HOME"):
        return True
    try:
        return bool(project_table(Settings.from_environment(env).home))
    except tomllib.TOMLDecodeError:
        return False


def project_table(home: Path) -> dict[str, Any]:
    """`[tool.tidegate]` of the pyproject.toml in a project's home; empty if there is none. Raises
    `tomllib.TOMLDecodeError`."""
    path = home / "pyproject.toml"
    document = tomllib.loads(path.read_text()) if path.exists() else {}
    table: dict[str, Any] = document.get("tool", {}).get("tidegate", {})
    return table


def resolve(path: str, home: Path | None = None) -> str:
    """A path or URL as written by the user, with relative paths below the project's home."""
    if "://" in path:
        return path
    return str((home or _home(os.environ)) / path)


def absolute(path: str) -> str:
    """A path or URL as the user wrote it, without `.`, `..` and trailing slashes; `file://` becomes a plain path.

    A URL's path is taken as it stands: `%20` is three characters.
    """
    location = resolve(path.removeprefix("file://"))
    return location.rstrip("/") if "://" in location else os.path.normpath(location)


def relative_to_home(location: str, home: str) -> str:
    """An absolute location in the form that identifies a pipeline: relative to the project's home if below it."""
    if "://" in location:
        return location
    for path in (location, os.path.realpath(location)):
        if path.startswith(home.rstrip("/") + "/"):
            return os.path.relpath(path, home)
    return location


def spark_path(location: str) -> str:
    """An absolute path or URL for Spark's readers, which expand patterns: escaped, so that it stands for itself.

    Switching the expansion off instead (`__globPaths__`) makes Spark 4.2 read a file several times if there is more
    than one.
    """
    url = location if "://" in location else f"file://{location}"
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", url.replace("s3://", "s3a://", 1))
