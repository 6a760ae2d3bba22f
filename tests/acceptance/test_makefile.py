"""`make` on a machine that has nothing yet: what it offers, what it refuses, and what it keeps secret."""

import platform
import re
import shutil
import stat
import subprocess
import sys

import pytest
from cryptography.fernet import Fernet


@pytest.fixture
def clone(project, tmp_path):
    """The files `make` itself looks at, without an environment."""
    for name in ("Makefile", "requirements.txt", "pyproject.toml", ".env.example"):
        shutil.copy(project / name, tmp_path / name)
    return tmp_path


def make(directory, *arguments):
    return subprocess.run(["make", *arguments], cwd=directory, capture_output=True, text=True, timeout=120)


def test_help_says_something_about_every_target(project):
    targets = re.search(r"^\.PHONY: (.*)$", (project / "Makefile").read_text(), re.MULTILINE)[1].split()
    told = re.findall(r"^  make ([\w-]+) +\S+", make(project, "help").stdout, re.MULTILINE)
    assert sorted(told) == sorted(targets)
    assert make(project).stdout == make(project, "help").stdout


def test_an_interpreter_that_is_there_but_does_not_run_is_passed_over(clone):
    shim = clone / "python3.12"
    shim.write_text("#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    old = clone / "python3.13"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    refused = make(clone, "setup", f"PYTHONS={shim} {old}")
    assert refused.returncode != 0
    assert f"No usable Python 3.11, 3.12 or 3.13 was found. Tried: {shim} {old}." in refused.stderr
    assert "make setup PYTHON=/path/to/python" in refused.stderr
    assert not (clone / ".venv").exists()


def test_no_other_python_is_tested_if_none_is_older(project):
    skipped = make(project, "test-oldest-python", f"PYTHON={sys.executable}")
    assert skipped.returncode == 0
    assert skipped.stdout == f"No Python on this machine is older than .venv's {platform.python_version()}: skipped.\n"


def test_the_settings_for_containers_get_random_secrets_that_only_their_owner_reads(clone):
    assert make(clone, "env").returncode == 0
    written = dict(line.split("=", 1) for line in (clone / ".env").read_text().splitlines() if re.match(r"\w+=", line))
    example = dict(
        line.split("=", 1) for line in (clone / ".env.example").read_text().splitlines() if re.match(r"\w", line)
    )
    secrets = [name for name, value in example.items() if value == "RANDOM"]
    assert len({written[name] for name in secrets}) == len(secrets) == 7
    for name in secrets:
        Fernet(written[name])
    assert {name: written[name] for name in example if name not in secrets} == {
        name: value for name, value in example.items() if value != "RANDOM"
    }
    assert stat.S_IMODE((clone / ".env").stat().st_mode) == 0o600


def test_settings_for_containers_that_exist_are_kept_and_get_what_they_lack(clone):
    example = re.findall(r"^(\w+)=", (clone / ".env.example").read_text(), re.MULTILINE)
    (clone / ".env").write_text("# mine\nPOSTGRES_PASSWORD=mine\nAIRFLOW_PORT=8090")  # no end of line
    assert make(clone, "env").returncode == 0
    completed = (clone / ".env").read_text()
    assert completed.startswith("# mine\nPOSTGRES_PASSWORD=mine\nAIRFLOW_PORT=8090\n")
    assert sorted(re.findall(r"^(\w+)=", completed, re.MULTILINE)) == sorted(example)
    Fernet(re.search(r"^TIDEGATE_RUNNER_PASSWORD=(.*)$", completed, re.MULTILINE)[1])
    assert make(clone, "env").returncode == 0
    assert (clone / ".env").read_text() == completed


def test_secrets_are_not_tracked(project):
    ignored = subprocess.run(
        ["git", "check-ignore", ".env", ".tidegate/demo"], cwd=project, capture_output=True, text=True
    )
    assert ignored.stdout.split() == [".env", ".tidegate/demo"]
