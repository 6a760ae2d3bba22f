"""Begins a project: the layout of this repository, with an example that runs. All files of it, or none."""

import keyword
import re
import runpy
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tidegate.protocol.facts.errors import ConfigurationError

_TEMPLATE = Path(__file__).parent / "template"
#: Where each file of the template goes. They end in `.txt`: some are programs that lack a name yet.
_FILES = {
    "dags/example.py": "dag.py",
    "include/PROJECT_NAME/orders.py": "orders.py",
    "include/PROJECT_NAME/pipelines.py": "pipelines.py",
    "tests/test_example.py": "test_example.py",
    ".env.example": "env.example",
    "docker-compose.yaml": "docker-compose.yaml",
}
_TAKEN = {"tidegate", "airflow", "pyspark", "example", "dags", "include", "tests"} | sys.stdlib_module_names


def begin(directory: Path, name: str | None = None, postgres: bool = False) -> list[Path]:
    """Write a project into a directory, and return its files. A pyproject.toml that is there gets what it lacks; a
    .gitignore that is there is left as it is. `name` is that of its package; default: that of the directory. With
    `postgres`, its tables are in Postgres, too.

    Raises `ConfigurationError` if a file is in the way, or the name is none for a package. Nothing was written then.
    """
    home = directory.resolve()
    package = name or _package_name(home.name)
    if not package.isidentifier() or keyword.iskeyword(package) or package in _TAKEN:
        raise ConfigurationError(
            f"A package cannot be called {package!r}: give a name of letters, digits and underscores that no other "
            "package has, with --name. Nothing was written."
        )
    new = {home / path.replace("PROJECT_NAME", package): template for path, template in _FILES.items()}
    if there := [path for path in new if path.exists()]:
        raise ConfigurationError(
            f"{', '.join(str(path.relative_to(home)) for path in there)} in {home} would be overwritten. Nothing was "
            "written. Choose another directory, or move the files away."
        )
    texts = {path: _text(template, package, home) for path, template in new.items()} | _project_file(home, package)
    if postgres:
        pipelines = home / "include" / package / "pipelines.py"
        texts[pipelines] = _with_marts(texts[pipelines], package, home)
    if not (home / ".gitignore").exists():
        texts[home / ".gitignore"] = _text("gitignore", package, home)
    return [*_written(home, texts), _first_orders(home, package)]


def _package_name(directory: str) -> str:
    name = re.sub(r"\W+", "_", directory.lower()).strip("_")
    return f"{name}_pipelines" if name in _TAKEN or not name.isidentifier() else name


def _project_file(home: Path, package: str) -> dict[Path, str]:
    path = home / "pyproject.toml"
    registered = _text("registered.toml", package, home)
    if not path.exists():
        return {path: _text("pyproject.toml", package, home) + registered}
    written = path.read_text()
    try:
        pipelines = tomllib.loads(written).get("tool", {}).get("tidegate", {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}. Nothing was written.") from error
    if pipelines:
        raise ConfigurationError(f"{path} has [tool.tidegate] already: this is a project. Nothing was written.")
    return {path: f"{written.rstrip()}\n\n{registered}"}


def _text(template: str, package: str, home: Path) -> str:
    text = (_TEMPLATE / f"{template}.txt").read_text()
    return text.replace("PROJECT_NAME", package).replace("PROJECT_HOME", str(home))


def _with_marts(pipelines: str, package: str, home: Path) -> str:
    imported = "ParquetSink, Pipeline, count"
    assert imported in pipelines
    return pipelines.replace(imported, "ParquetSink, Pipeline, PostgresSink, count") + _text("marts.py", package, home)


def _written(home: Path, texts: Mapping[Path, str]) -> list[Path]:
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    except OSError as error:
        raise ConfigurationError(
            f"The project could not be written to {home}: {error.strerror}, {error.filename}. What is there already is "
            "safe to remove."
        ) from error
    return list(texts)


def _first_orders(home: Path, package: str) -> Path:
    """Something to run on, from the project's own generator."""
    made: Path = runpy.run_path(str(home / "include" / package / "orders.py"))["deliver"](home)
    return made
