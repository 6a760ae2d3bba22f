"""Copies of other people's files: what they are, from where, and that nobody has changed them."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

import tidegate.ui

LIBRARY = Path(tidegate.ui.__file__).parent / "static" / "vendor"
PLACES = [LIBRARY, Path(__file__).parent / "vendor"]


@pytest.mark.parametrize("place", PLACES, ids=["library", "tests"])
def test_every_file_is_the_one_that_is_named(place):
    packages = json.loads((place / "vendored.json").read_text())
    listed = {name: file["sha256"] for package in packages for name, file in package["files"].items()}
    present = {path.name: sha256(path.read_bytes()).hexdigest() for path in place.iterdir()}
    assert present.pop("vendored.json")
    assert present == listed


@pytest.mark.parametrize("place", PLACES, ids=["library", "tests"])
def test_each_package_has_its_licence_version_and_origin(place):
    for package in json.loads((place / "vendored.json").read_text()):
        names = list(package["files"])
        assert [name for name in names if name.endswith("LICENSE.txt")]
        assert package["integrity"].startswith("sha512-")
        assert package["licence"] in {"BSD-0-Clause", "MIT", "MPL-2.0"}
        scripts = [name for name in names if not name.endswith("LICENSE.txt")]
        assert scripts
        assert all(package["version"] in name for name in scripts)
