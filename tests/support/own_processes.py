"""A program of a test in a process of its own, for what a process can be asked only once: what it has imported, which
Spark it has begun."""

import os
import subprocess
import sys
from pathlib import Path


def printed(program: str, *arguments: str) -> str:
    """What `program`, Python that may import what tests share, prints. A program that fails fails the test."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", program, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
