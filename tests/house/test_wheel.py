"""The wheel has what the library needs at run time: also what is no Python, such as templates and vendored scripts.

Unpacked and put first on the path it is as good as installed: nothing else of this project is needed.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import tidegate

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
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
        directory := tmp_path_factory.mktemp("wheel"),
        PROJECT,
    ]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode and "hatchling" in built.stderr and "cache" in built.stderr:
        pytest.skip("uv has no copy of hatchling. `uv pip install --editable .` fetches it.")
    assert built.returncode == 0, built.stderr
    (path,) = directory.glob("*.whl")
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
    for part in ("ui/templates/base.html", "ui/static/live.js", "ui/static/vendor/vendored.json", "py.typed"):
        assert f"tidegate/{part}" in found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Runs Python with the unpacked wheel, and returns what it printed."""
    directory = tmp_path_factory.mktemp("installed")
    with ZipFile(wheel) as packed:
        packed.extractall(directory / "site")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEGATE"))}
    environment |= {"PYTHONPATH": str(directory / "site"), "AIRFLOW_HOME": str(directory / "airflow")}

    def run(*arguments, **more):
        command = [sys.executable, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=directory, env=environment | more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_wheel_is_a_program_and_a_package(installed):
    said = installed("-c", "import tidegate; print(tidegate.__file__)")
    assert str(PROJECT) not in said
    assert installed("-m", "tidegate", "--version") == f"tidegate {tidegate.__version__}\n"
    assert "Usage: " in installed("-m", "tidegate", "-h")
    needed = "from tidegate.postgres import migrate; print(migrate.needed_version())"
    newest = max(path.name[:4] for path in PROJECT.glob("include/tidegate/postgres/migrations/versions/0*.py"))
    assert installed("-c", needed).startswith(newest)


ASK_AIRFLOW = """
import json, warnings
warnings.simplefilter("ignore")
from airflow import plugins_manager
from airflow.providers_manager import ProvidersManager
plugins, errors = plugins_manager._get_plugins()
manager = ProvidersManager()
print(json.dumps([
    [plugin.name for plugin in plugins], errors, manager.hooks["tidegate"].hook_name,
    manager.field_behaviours["tidegate"]["relabeling"], manager.providers["tidegate"].data["name"],
]))
"""


def test_airflow_finds_the_pages_and_the_connection_type_by_the_entry_points(installed):
    """Also where this project's plugins/ is Airflow's folder: two plugins of one name would be an import error."""
    said = installed("-c", ASK_AIRFLOW, AIRFLOW__CORE__PLUGINS_FOLDER=str(PROJECT / "plugins"))
    plugins, errors, hook, labels, provider = json.loads(said.splitlines()[-1])
    # These tests have the package twice, unpacked and in development. A file in plugins/ has its path in front.
    errors = {where: what for where, what in errors.items() if not where.startswith("tidegate==")}
    assert (plugins.count("tidegate"), errors) == (1, {})
    assert (hook, labels["schema"], provider) == ("Tidegate", "Database", "Tidegate")


def test_where_the_package_is_not_installed_the_plugins_folder_registers_the_pages(installed):
    path = PROJECT / "plugins" / "tidegate_plugin.py"
    script = (
        "import importlib.metadata, runpy; importlib.metadata.entry_points = lambda **_: ();"
        f"print('TidegatePlugin' in runpy.run_path({str(path)!r}))"
    )
    assert installed("-c", script) == "True\n"
