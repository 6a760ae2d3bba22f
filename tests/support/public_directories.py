"""Directories that everybody can enter, which pytest's own are not: as root,
an embedded Postgres runs as another user."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_stack.stack import LocalStack
from tidegate.embedded_postgres.server import EmbeddedPostgres


@contextmanager
def public_directory(prefix: str) -> Iterator[Path]:
    """One that is removed in the end. A `stack` or `postgres` below it is stopped first."""
    home = Path(tempfile.mkdtemp(prefix=prefix))
    home.chmod(0o755)
    try:
        yield home
    finally:
        if (home / "stack").exists():
            LocalStack(home / "stack", home, home).remove()
        if (home / "postgres").exists():
            EmbeddedPostgres(home / "postgres").remove()
        shutil.rmtree(home)
