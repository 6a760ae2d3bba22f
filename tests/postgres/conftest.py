"""What tests of the embedded server share: a place for one."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.embedded_postgres.server import EmbeddedPostgres


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that everybody can enter; servers below it are stopped in the end."""
    home = Path(tempfile.mkdtemp(prefix="tidegate-embedded-"))
    home.chmod(0o755)
    yield home
    for lock in home.rglob("lock"):
        EmbeddedPostgres(lock.parent).stop()
    shutil.rmtree(home)
