"""The pipelines that a project registers, under `[tool.tidegate.pipelines]` in the pyproject.toml of its home."""

import os
import sys
import tomllib
from importlib import import_module
from pathlib import Path

from tidegate.pipeline.definition import Pipeline
from tidegate.protocol.errors import ConfigurationError, PipelineNotFoundError
from tidegate.settings import Settings, project_table


def load_pipeline(name: str) -> Pipeline:
    """A pipeline by `module:attribute`, or by a name listed under `[tool.tidegate.pipelines]` in the pyproject.toml of
    the project's home. Raises `PipelineNotFoundError`, `ConfigurationError`."""
    target = name if ":" in name else registered_pipelines().get(name)
    if target is None:
        known = ", ".join(sorted(registered_pipelines())) or "none"
        raise PipelineNotFoundError(
            f"No pipeline named {name!r} is listed under [tool.tidegate.pipelines] in {project_file()} (listed: "
            f"{known}). List it there, or give it as module:attribute."
        )
    module_name, _, attribute = target.partition(":")
    # The library of a project that `tidegate init` has made is below `include`.
    for place in (os.getcwd(), str(Settings.from_environment().home / "include")):
        if place not in sys.path:
            sys.path.append(place)
    try:
        found = getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise PipelineNotFoundError(f"Pipeline {target!r} cannot be loaded: {error}.") from error
    if not isinstance(found, Pipeline):
        raise PipelineNotFoundError(f"{target!r} is a {type(found).__name__}, not a tidegate Pipeline.")
    return found


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
