"""Directories of tests that hold servers, and go with them: a process beside this one sees to it when this one ends, however."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Waits for the end of its input: this process closes it, or dies and so does. A stack stops its Postgres too.
_UNDERTAKER = """
import shutil, sys
from pathlib import Path
sys.stdin.read()
home = Path(sys.argv[1])
if (home / "stack").exists():
    from tidegate.demo.stack import LocalStack
    LocalStack(home / "stack", home, home).remove()
if (home / "postgres").exists():
    from tidegate.embedded_postgres.server import EmbeddedPostgres
    EmbeddedPostgres(home / "postgres").remove()
shutil.rmtree(home)
"""


@contextmanager
def buried(prefix: str) -> Iterator[Path]:
    """A directory for `stack` or `postgres`. At its end these are stopped, and it is removed.

    Not below pytest's temporary directory: that is private, and as root a Postgres runs as another user.
    """
    home = Path(tempfile.mkdtemp(prefix=prefix))
    home.chmod(0o755)
    undertaker = subprocess.Popen(
        [sys.executable, "-c", _UNDERTAKER, str(home)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield home
    finally:
        undertaker.communicate()
    assert undertaker.returncode == 0, f"{home} was not removed, or what runs there not stopped"
