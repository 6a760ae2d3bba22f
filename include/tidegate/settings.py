"""Where things are: the project's home, the checkpoint storage, the local cache. Read from the environment once asked.

`TIDEGATE_HOME`      root of relative paths in sources and sinks; default: the current directory
`TIDEGATE_STORAGE`   checkpoint storage, a path or URL (file, s3, gs, hdfs); default: HOME/.tidegate/checkpoints
`TIDEGATE_CACHE`     local directory for copies of state, on driver and executors; default: on each machine the user's own
                     (see `tidegate.private_directories`). It is a cache and nothing more.
`TIDEGATE_DOCS`      where validation reports are built; default: HOME/.tidegate/docs
`TIDEGATE_DATABASE_URL`  the metadata database (see `tidegate.postgres.locate`)
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    home: Path
    storage: str
    cache: str | None
    docs: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "Settings":
        env = os.environ if environment is None else environment
        home = Path(env.get("TIDEGATE_HOME") or Path.cwd()).resolve()
        return cls(
            home=home,
            storage=resolve(env.get("TIDEGATE_STORAGE") or ".tidegate/checkpoints", home),
            cache=env.get("TIDEGATE_CACHE") or None,
            docs=Path(env.get("TIDEGATE_DOCS") or home / ".tidegate" / "docs"),
        )


def resolve(path: str, home: Path | None = None) -> str:
    """A path or URL as written by the user, with relative paths below the project's home."""
    if "://" in path:
        return path
    return str((home or Settings.from_environment().home) / path)
