"""`make bench-flink` says what it needs before it measures or installs anything."""

from pathlib import Path

import pytest


def test_a_jdk_is_that_of_java_home_or_of_the_path(tmp_path: Path) -> None:
    from flink_jars import find_jdk

    compiler = tmp_path / "bin" / "javac"
    compiler.parent.mkdir()
    compiler.touch(mode=0o755)
    assert find_jdk({"JAVA_HOME": str(tmp_path), "PATH": ""}) == compiler.parent
    assert find_jdk({"PATH": str(compiler.parent)}) == compiler.parent


def test_without_one_it_is_said_what_to_install(tmp_path: Path) -> None:
    from flink_jars import find_jdk

    with pytest.raises(RuntimeError, match=r"no javac on PATH.*apt install openjdk-17-jdk-headless.*Nothing was meas"):
        find_jdk({"PATH": str(tmp_path)})
    # A runtime without a compiler, as the one that Spark runs on may be.
    with pytest.raises(RuntimeError, match=r"no javac in JAVA_HOME \(.*\)"):
        find_jdk({"JAVA_HOME": str(tmp_path)})
