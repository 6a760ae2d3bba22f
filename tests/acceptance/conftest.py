"""Fixtures of the acceptance tests: the project's own files, as a newcomer finds them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def project() -> Path:
    return PROJECT


@pytest.fixture(scope="session")
def locked() -> dict[str, list[tuple[str, str]]]:
    """What requirements.txt pins: (version, marker) for each package; more than one where the marker decides."""
    pins: dict[str, list[tuple[str, str]]] = {}
    for line in (PROJECT / "requirements.txt").read_text().splitlines():
        requirement = line.partition("#")[0].strip()
        if requirement:
            pin, _, marker = requirement.partition(";")
            name, _, version = pin.strip().partition("==")
            pins.setdefault(name, []).append((version, marker.strip()))
    return pins


@pytest.fixture(scope="session")
def services() -> dict[str, Any]:
    """Those of docker-compose.yaml."""
    found: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yaml").read_text())["services"]
    return found
