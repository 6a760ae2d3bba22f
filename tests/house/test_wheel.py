"""The wheel has what the library needs at run time: also what is no Python, such as templates and vendored scripts."""

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def wheel(tmp_path):
    """Built without the network: the build backend is what the installation of the project has left in uv's cache."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}") or shutil.which("uv")
    if uv is None:
        pytest.skip("There is no uv. `make setup` installs it.")
    command = [
        uv,
        "build",
        "--quiet",
        "--wheel",
        "--offline",
        "--python",
        sys.executable,
        "--out-dir",
        tmp_path,
        PROJECT,
    ]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode and "hatchling" in built.stderr and "cache" in built.stderr:
        pytest.skip("uv has no copy of hatchling. `uv pip install --editable .` fetches it.")
    assert built.returncode == 0, built.stderr
    (path,) = tmp_path.glob("*.whl")
    return path


def test_every_file_of_the_library_is_in_the_wheel_and_nothing_else(wheel):
    library = PROJECT / "include"
    wanted = {
        str(path.relative_to(library))
        for path in (library / "tidegate").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with ZipFile(wheel) as packed:
        found = {name for name in packed.namelist() if ".dist-info/" not in name}
    assert found == wanted
    for part in ("templates/base.html", "static/live.js", "static/vendor/vendored.json"):
        assert f"tidegate/ui/{part}" in found
