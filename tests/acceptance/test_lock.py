"""requirements.txt is the whole truth about what is installed, and fits every machine."""

import re
import tomllib
from importlib.metadata import version

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def declared(project):
    document = tomllib.loads((project / "pyproject.toml").read_text())
    extras, groups = document["project"]["optional-dependencies"], document["dependency-groups"]
    lines = [*document["project"]["dependencies"], *groups["test"]]
    lines += [line for extra in extras.values() for line in extra if not line.startswith("tidegate[")]
    lines += [line for line in groups["dev"] if isinstance(line, str)]
    return [Requirement(line) for line in lines]


def test_all_and_demo_leave_no_extra_out(project):
    extras = tomllib.loads((project / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert Requirement(everything).extras == extras.keys() - {"all", "demo"}
    assert extras["demo"][0] == "tidegate[all]"


def test_every_line_pins_one_version_of_a_registered_package(project):
    text = (project / "requirements.txt").read_text()
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    unpinned = [line for line in lines if not re.fullmatch(r"[a-z0-9._-]+==[^\s;@]+( ; [^@]+)?", line)]
    assert unpinned == []


def test_no_registry_and_no_path_of_a_machine_is_named(project):
    text = (project / "requirements.txt").read_text()
    assert [line for line in text.splitlines() if "://" in line or re.search(r"(^|\s)/\w|--\w+-url|@ ", line)] == []


def test_everything_declared_is_locked_in_a_version_that_was_asked_for(project, locked):
    for requirement in declared(project):
        pins = locked[canonicalize_name(requirement.name)]
        assert all(requirement.specifier.contains(pin) for pin, _ in pins), requirement


def test_pyspark_and_its_client_share_a_folder_and_so_a_version(locked):
    assert locked["pyspark"] == locked["pyspark-client"]


def test_the_environment_is_what_is_locked(locked):
    differing = {
        name: (version(name), pin)
        for name, pins in locked.items()
        for pin, marker in pins
        if (not marker or Marker(marker).evaluate()) and version(name) != pin
    }
    assert differing == {}
