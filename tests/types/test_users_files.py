"""A user's files as mypy and pyright see them: what is right passes, and each mistake is reported."""

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = sorted(HERE.glob("users_*.py"))
MISTAKES = {
    (path.name, number, line.strip())
    for path in FILES
    for number, line in enumerate(path.read_text().splitlines(), start=1)
    if line.endswith("# reported")
}


def run(*command: str) -> str:
    """What a type checker prints that finds something."""
    found = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 1, found.stdout + found.stderr
    return found.stdout


def mistakes(reported: set[tuple[str, int]]) -> set[tuple[str, int, str]]:
    lines = {path.name: path.read_text().splitlines() for path in FILES}
    return {(name, number, lines[name][number - 1].strip()) for name, number in reported}


def test_mypy_reports_the_mistakes_and_nothing_else():
    # Without the project's configuration, but with its cache.
    printed = run("mypy", "--config-file=", "--strict", "--ignore-missing-imports", *map(str, FILES))
    reported = re.findall(r"(\w+\.py):(\d+): error:", printed)
    assert mistakes({(name, int(number)) for name, number in reported}) == MISTAKES


def test_pyright_reports_the_mistakes_and_nothing_else(tmp_path):
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps({"include": list(map(str, FILES)), "typeCheckingMode": "standard"}))
    printed = json.loads(run("basedpyright", "--outputjson", "--project", str(project), "--pythonpath", sys.executable))
    reported = [(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in printed["generalDiagnostics"]]
    assert mistakes(set(reported)) == MISTAKES
