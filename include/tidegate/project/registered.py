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
    """Load a pipeline by `module:attribute`, or by a name listed under `[tool.tidegate.pipelines]` in the
    pyproject.toml of the project's home.

    Raises:
        PipelineNotFoundError: If there is no such pipeline or module.
        ConfigurationError: If a package is not installed, or the pyproject.toml is not valid.
        PipelineDefinitionError: If the module raises another error. It names file and line.
    """
    target = name if ":" in name else registered_pipelines().get(name)
    if target is None:
        listed = ", ".join(sorted(registered_pipelines())) or "none"
        raise PipelineNotFoundError(
            f"No pipeline named {name!r} is listed under [tool.tidegate.pipelines] in {project_file()} (listed: "
            f"{listed}). Nothing was started. List it there, or give it as module:attribute."
        )
    module_name, _, attribute = target.partition(":")
    for place in _places():
        if place not in sys.path:
            sys.path.append(place)
    module = _imported(module_name, target)
    if not hasattr(module, attribute):
        there = ", ".join(sorted(key for key, value in vars(module).items() if isinstance(value, Pipeline))) or "none"
        raise PipelineNotFoundError(
            f"Pipeline {target!r} cannot be loaded: {module_name} has no {attribute!r}. It has these pipelines: "
            f"{there}. Nothing was started. Correct the name."
        )
    pipeline = getattr(module, attribute)
    if not isinstance(pipeline, Pipeline):
        raise PipelineNotFoundError(
            f"{target!r} is of type {type(pipeline).__name__}, not a tidegate Pipeline. Nothing was started. "
            "Give the name of a pipeline."
        )
    return pipeline


def _places() -> tuple[str, str]:
    """Return the directories of the project's modules; `tidegate init` puts them below `include`."""
    return os.getcwd(), str(Settings.from_environment().home / "include")


def _imported(name: str, target: str) -> ModuleType:
    try:
        return import_module(name)
    except CheckpointError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise PipelineNotFoundError(
                f"Pipeline {target!r} cannot be loaded: there is no module {error.name!r} on Python's path, nor in "
                f"{' or '.join(dict.fromkeys(_places()))}. Nothing was started. "
                "Correct the name, or PYTHONPATH."
            ) from error
        if isinstance(error, ModuleNotFoundError) and (missing := not_installed(error.name)):
            raise missing from error
        raise PipelineDefinitionError(
            f"Pipeline {target!r} cannot be loaded. {_where(error)}: {type(error).__name__}: {_sentence(error)} "
            "Nothing was started. Correct the line, then run again."
        ) from error


def _where(error: BaseException) -> str:
    """Return the user's line that raised the error: the innermost frame outside of Tidegate, Python and other
    libraries.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    theirs = (_OURS, "<frozen ", *(get_path(name) for name in ("stdlib", "purelib", "platlib")))
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith(theirs)]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "Importing it"


def _sentence(error: BaseException) -> str:
    """Return the error's text as a sentence."""
    sentence = (error.msg if isinstance(error, SyntaxError) else str(error)).rstrip(".")
    return sentence if sentence.endswith("?") else f"{sentence}."


def registered_pipelines() -> dict[str, str]:
    """Return names and targets from the project's pyproject.toml; empty if there is none."""
    home = Settings.from_environment().home
    try:
        pipelines = project_table(home).get("pipelines", {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(
            f"{project_file()} is not valid TOML: {error}. Nothing was started. Correct the file."
        ) from error
    return {str(key): str(value) for key, value in pipelines.items()}


def project_file() -> Path:
    return Settings.from_environment().home / "pyproject.toml"
