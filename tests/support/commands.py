"""`tidegate …` in a test: as a process of its own, in a fork of one that has imported it, or in this one, which saves
its start where no Spark is needed.

All are callable: `command("run", "orders")` is the ended command, with `returncode`, `stdout` and `stderr`.
"""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock

from jsonschema import Draft202012Validator

from tidegate.cli.main import main

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
GROUPS = ("db", "source")
SUPPORT = str(Path(__file__).parent)


def environment_of(home, database_url):
    """What the commands of a project in `home` need; it says nothing of Spark."""
    places = [SUPPORT, str(home), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "TIDEGATE_HOME": str(home),
        "TIDEGATE_DATABASE_URL": database_url,
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
        "COLUMNS": "500",
    }


class Command:
    """A process that has ended. `python` is what it is started with: `quick_python` forks it."""

    def __init__(self, home, environment, python=(sys.executable,)):
        self._home, self.environment, self._python = home, environment, python

    def __call__(self, *arguments, **changes):
        return self.python("-m", "tidegate.cli.main", *arguments, **changes)

    def python(self, *arguments, **changes):
        return self._run([*self._python, *arguments], changes)

    def under(self, wrapper, *arguments):
        """As what `wrapper`, a program that runs another one, runs."""
        return self._run([*wrapper, "sh", sys.executable, "-m", "tidegate.cli.main", *arguments], {})

    def _run(self, arguments, changes):
        ended = subprocess.run(
            arguments,
            capture_output=True, text=True, cwd=self._home, env=self.environment | changes, timeout=300,
        )  # fmt: skip
        if "tidegate.cli.main" in arguments:
            require_described(arguments[arguments.index("tidegate.cli.main") + 1 :], ended.stdout)
        return ended


def require_described(arguments, printed):
    """What any test sees of `-o json` is as its schema says."""
    if "-o" not in arguments or not printed.strip() or arguments[arguments.index("-o") + 1] != "json":
        return
    words = [word for word in arguments if not word.startswith("-")]
    command = "-".join(words[:2]) if words[0] in GROUPS else words[0]
    wrong = list(Draft202012Validator(_schema(command)).iter_errors(json.loads(printed)))
    assert not wrong, f"tidegate {command}: {wrong[0].json_path}: {wrong[0].message[:500]}"


@cache
def _schema(command):
    return json.loads((SCHEMAS / f"{command}.json").read_text())


@dataclass
class Ended:
    returncode: int
    stdout: str
    stderr: str


class CommandHere:
    """In this process, with nobody at its standard input. Modules of the project are imported anew each time."""

    def __init__(self, home, environment):
        self._home, self._environment = home, environment

    def __call__(self, *arguments, **changes):
        out, err, modules, before = io.StringIO(), io.StringIO(), set(sys.modules), Path.cwd()
        places = [str(self._home), *sys.path]
        os.chdir(self._home)
        try:
            with (
                mock.patch.dict(os.environ, self._environment | changes, clear=True),
                mock.patch.multiple(sys, argv=["tidegate", *arguments], path=places, stdin=io.StringIO()),
                redirect_stdout(out),
                redirect_stderr(err),
            ):
                code = _exit_code()
        finally:
            os.chdir(before)
            for name in set(sys.modules) - modules:
                if _is_below(self._home, sys.modules[name]):
                    del sys.modules[name]
        require_described(arguments, out.getvalue())
        return Ended(code, out.getvalue(), err.getvalue())


def _exit_code():
    try:
        main()
    except SystemExit as ended:
        return ended.code or 0
    return 0


def _is_below(home, module):
    """A directory without an `__init__` is a module without a file."""
    places = [path] if (path := getattr(module, "__file__", None)) else list(getattr(module, "__path__", ()))
    return any(Path(place).is_relative_to(home) for place in places)
