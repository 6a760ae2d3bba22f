"""The scaffold of a new project: this repository's layout, with an example that runs. It writes all files or none."""

import keyword
import re
import runpy
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tidegate.protocol.facts.errors import ConfigurationError

_TEMPLATE = Path(__file__).parent / "template"
#: The destination of each file of the template. Template files end in `.txt`: some are programs with a placeholder.
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
    """Write a project into a directory, and return its files.

    An existing pyproject.toml gets the missing sections; an existing .gitignore is left unchanged. `name` is that of
    the package, by default the directory's. With `postgres`, its tables are in Postgres too.

    Raises:
        ConfigurationError: If a file is in the way, or the name is not valid for a package. Then nothing was written.
    """
    home = directory.resolve()
    package = name or _package_name(home.name)
    if not package.isidentifier() or keyword.iskeyword(package) or package in _TAKEN:
        raise ConfigurationError(
            f"{package!r} is not a valid name for the package. Nothing was written. Give one of letters, digits and "
            "underscores that no other package has, with --name."
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
        raise ConfigurationError(
            f"{path} already has [tool.tidegate], so a project exists here. Nothing was written. "
            "Choose another directory."
        )
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
            f"The project could not be written to {home}: {error.strerror}, {error.filename}. Files that were written "
            "can be removed."
        ) from error
    return list(texts)


def _first_orders(home: Path, package: str) -> Path:
    """Deliver the first data, from the project's own generator."""
    delivered: Path = runpy.run_path(str(home / "include" / package / "orders.py"))["deliver"](home)
    return delivered
