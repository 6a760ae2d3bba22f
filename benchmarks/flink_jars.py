"""What Flink's side of `make bench-flink` needs: a JDK of this machine, Flink's jars, and our program compiled.

The jars are those of PyPI's `apache-flink-libraries`, some 330 MB, in an environment of their own below `.tidegate`.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

VERSION = "2.3.0"
ENVIRONMENT = Path(__file__).parents[1] / ".tidegate" / "flink"
PROGRAM = Path(__file__).parent / "FlinkEngine.java"
_OLDEST = 17  # our program's; Flink's own is 11


def find_jdk(environment: Mapping[str, str]) -> Path:
    """The directory with `javac` and `java`: that of JAVA_HOME, or of PATH. Raises `RuntimeError` if there is none."""
    if home := environment.get("JAVA_HOME"):
        found = Path(home) / "bin" / "javac"
        where = f"in JAVA_HOME ({home})" if not found.exists() else ""
    else:
        found = Path(shutil.which("javac", path=environment.get("PATH", "")) or "/nowhere")
        where = "on PATH" if not found.exists() else ""
    if where:
        raise RuntimeError(
            f"There is no javac {where}. Flink's side of this bench is a Java program, so it needs a JDK, version "
            f"{_OLDEST} or later. Install one (Debian, Ubuntu: apt install openjdk-17-jdk-headless), or set JAVA_HOME. "
            "Nothing was measured. `make bench` needs no JDK"
        )
    return found.resolve().parent


def classpath(jdk: Path, into: Path) -> str:
    """Install the jars where they are missing, and compile our program. Raises `RuntimeError` if it does not work."""
    jars = _jars()
    _run([str(jdk / "javac"), "-nowarn", "-d", str(into), "-cp", f"{jars}/*", str(PROGRAM)])
    return f"{into}:{jars}/*"


def _jars() -> Path:
    package = f"apache-flink-libraries=={VERSION}"
    uv = str(Path(sys.executable).parent / "uv")
    _run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(ENVIRONMENT)])
    _run([uv, "pip", "install", "--quiet", "--no-deps", "--python", str(ENVIRONMENT), package])
    [jars] = ENVIRONMENT.glob("lib/python*/site-packages/pyflink/lib")
    return jars


def _run(command: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {run.stderr.strip()}")
