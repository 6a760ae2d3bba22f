"""The operating-system account of the embedded server. PostgreSQL refuses to run as root.

An ordinary user's server runs as that user. Root's server runs as the owner of the server's directory, else as
the user `postgres`, else as the user `nobody`. Permissions of directories that are not Tidegate's are never changed.
"""

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.protocol.facts.errors import ConfigurationError

_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "HOME": "/"}


@dataclass(frozen=True, slots=True)
class Account:
    """A user and its group. `dropped`: whether this process must drop root privileges to become it."""

    name: str
    uid: int
    gid: int
    dropped: bool

    def run(self, command: Sequence[str | Path], cwd: Path = Path("/")) -> subprocess.CompletedProcess[str]:
        """Run a command as this account, in a small environment. Its output is captured, and a failure
        is not raised."""
        identity: dict[str, Any] = {"user": self.uid, "group": self.gid, "extra_groups": []} if self.dropped else {}
        ended: subprocess.CompletedProcess[str] = subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            umask=0o077,
            check=False,
            **identity,
        )
        return ended

    def can_enter(self, directory: Path) -> bool:
        """Whether this account can reach the contents of a directory, including every directory above it."""
        return not self.dropped or self.run(["/usr/bin/test", "-x", directory]).returncode == 0

    def own(self, path: Path) -> None:
        """Give a file or directory to this account."""
        if self.dropped:
            os.chown(path, self.uid, self.gid)


def account_for(server_directory: Path) -> Account:
    """Return the account that runs the server with files in this directory, which need not exist yet.

    Raises `ConfigurationError` if another user owns them and this one is not root.
    """
    owner = server_directory.stat().st_uid if server_directory.exists() else None
    if os.geteuid() != 0:
        if owner not in {None, os.geteuid()}:
            raise ConfigurationError(
                f"The embedded Postgres in {server_directory} belongs to {_name(owner or 0)}, and this process runs "
                f"as {_name(os.geteuid())}. Nothing was changed. Start it as its owner or as root, or use a home of "
                "your own (TIDEGATE_HOME)."
            )
        return Account(_name(os.geteuid()), os.geteuid(), os.getegid(), dropped=False)
    if owner:
        return _dropped(pwd.getpwuid(owner))
    for name in ("postgres", "nobody"):
        try:
            return _dropped(pwd.getpwnam(name))
        except KeyError:
            continue
    raise ConfigurationError(
        "PostgreSQL refuses to run as root, and this machine has neither a user `postgres` nor `nobody` to run it as. "
        "Create one, run as an ordinary user, or set TIDEGATE_DATABASE_URL to a running server."
    )


def _dropped(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, dropped=True)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
