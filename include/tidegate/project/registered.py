"""The pipelines that a project registers, under `[tool.tidegate.pipelines]` in the pyproject.toml of its home."""

import os
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from sysconfig import get_path
from traceback import extract_tb
from types import ModuleType

from tidegate.pipeline.definition import Pipeline
from tidegate.protocol.facts.errors import (
    CheckpointError,
    ConfigurationError,
    PipelineDefinitionError,
    PipelineNotFoundError,
)
from tidegate.protocol.text.installed import not_installed
from tidegate.settings import Settings, project_table

_OURS = str(Path(__file__).parents[1])


def load_pipeline(name: str) -> Pipeline:
    """A pipeline by `module:attribute`, or by a name listed under `[tool.tidegate.pipelines]` in the pyproject.toml of
    the project's home. Raises `PipelineNotFoundError`, `ConfigurationError`; `PipelineDefinitionError`, with file and
    line, if the module raises something else."""
    target = name if ":" in name else registered_pipelines().get(name)
    if target is None:
        known = ", ".join(sorted(registered_pipelines())) or "none"
        raise PipelineNotFoundError(
            f"No pipeline named {name!r} is listed under [tool.tidegate.pipelines] in {project_file()} (listed: "
            f"{known}). List it there, or give it as module:attribute."
        )
    module_name, _, attribute = target.partition(":")
    for place in _places():
        if place not in sys.path:
            sys.path.append(place)
    module = _imported(module_name, target)
    if not hasattr(module, attribute):
        there = ", ".join(sorted(key for key, value in vars(module).items() if isinstance(value, Pipeline))) or "none"
        raise PipelineNotFoundError(
            f"Pipeline {target!r} cannot be loaded: {module_name} has no {attribute!r}. Its pipelines: {there}."
        )
    found = getattr(module, attribute)
    if not isinstance(found, Pipeline):
        raise PipelineNotFoundError(f"{target!r} is of type {type(found).__name__}, not a tidegate Pipeline.")
    return found


def _places() -> tuple[str, str]:
    """Where modules of the project may lie; what `tidegate init` has made is below `include`."""
    return os.getcwd(), str(Settings.from_environment().home / "include")


def _imported(name: str, target: str) -> ModuleType:
    try:
        return import_module(name)
    except CheckpointError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise PipelineNotFoundError(
                f"Pipeline {target!r} cannot be loaded: there is no module {error.name!r} where Python looks, nor in "
                f"{' or '.join(dict.fromkeys(_places()))}."
            ) from error
        if isinstance(error, ModuleNotFoundError) and (missing := not_installed(error.name)):
            raise missing from error
        raise PipelineDefinitionError(
            f"Pipeline {target!r} cannot be loaded. {_where(error)}: {type(error).__name__}: {_said(error)} Nothing "
            "was begun. Correct the line, then run again."
        ) from error


def _where(error: BaseException) -> str:
    """The user's line that raised it: the innermost that is neither ours nor of Python or of another library."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    theirs = (_OURS, "<frozen ", *(get_path(name) for name in ("stdlib", "purelib", "platlib")))
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith(theirs)]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "Importing it"


def _said(error: BaseException) -> str:
    """What the error says, as a sentence."""
    said = (error.msg if isinstance(error, SyntaxError) else str(error)).rstrip(".")
    return said if said.endswith("?") else f"{said}."


def registered_pipelines() -> dict[str, str]:
    """Names and targets from the project's pyproject.toml; empty if there is none."""
    home = Settings.from_environment().home
    try:
        pipelines = project_table(home).get("pipelines", {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{project_file()} is not valid TOML: {error}.") from error
    return {str(key): str(value) for key, value in pipelines.items()}


def project_file() -> Path:
    return Settings.from_environment().home / "pyproject.toml"
