"""Where Java comes from when JAVA_HOME, PATH or neither has it."""

import os
import subprocess
from pathlib import Path

import pytest

from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.spark.session import java
from tidegate.spark.session.java import find_java


def fake(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return home


def test_java_home_wins(tmp_path: Path) -> None:
    declared, other = fake(tmp_path / "declared", "21.0.1"), fake(tmp_path / "other", "17.0.1")
    assert find_java({"JAVA_HOME": str(declared), "PATH": str(other / "bin")}) == declared


@pytest.mark.parametrize(
    ("version", "message"), [("11.0.2", "which is Java 11; Spark needs 17"), ("1.8.0_402", "which is Java 8")]
)
def test_a_java_home_that_is_too_old_is_an_error(tmp_path: Path, version: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        find_java({"JAVA_HOME": str(fake(tmp_path / "old", version))})


def test_a_java_home_without_java_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no bin/java in it"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_java_on_path_is_followed_to_its_home(tmp_path: Path) -> None:
    home = fake(tmp_path / "jvm", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}) == home


def test_without_java_on_path_the_wheel_is_wrapped_and_runs(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    home = find_java({"PATH": ""}, cache)
    assert home.is_relative_to(cache)
    command = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dname=a b", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, env={}, check=True)
    assert 'openjdk version "21' in done.stderr
    before = (home / "bin" / "java").stat()
    assert find_java({"PATH": ""}, cache) == home
    assert (home / "bin" / "java").stat().st_mtime_ns == before.st_mtime_ns


def test_an_old_java_on_path_is_passed_over(tmp_path: Path) -> None:
    old = fake(tmp_path / "old", "11.0.2")
    assert find_java({"PATH": str(old / "bin")}, tmp_path / "cache").is_relative_to(tmp_path / "cache")


def test_no_program_is_started_from_a_cache_that_others_can_write(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(ConfigurationError, match=r"others can write to .*cache .* and so replace it"):
        find_java({"PATH": ""}, cache)
    assert os.listdir(cache) == []


def test_no_java_anywhere_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="Spark needs Java 17 or later, but there is none on PATH"):
        find_java({"PATH": ""}, tmp_path)
