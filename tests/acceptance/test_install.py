"""The script of install.md and in-airflow.md on a clean machine: a new environment from the wheel, a project, a DAG run
in a fresh Airflow, and the pages."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

PROJECT = Path(__file__).parents[2]

#: Seconds: for the installation, the first checkpoint and the DAG run, and for Airflow to be up.
LONGEST, UP = 1500, 300


def script():
    """Its blocks one after the other, with the wheel that is built here in place of the registry's. uv installs it: it
    has what it needs in its cache."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    assert uv is not None, "`make setup` installs uv"
    pages = "".join((PROJECT / "docs/start" / name).read_text() for name in ("install.md", "in-airflow.md"))
    blocks = re.findall(r"^```bash\n(.*?)^```$", pages, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    text = "".join(blocks).replace("python3 -m venv", f"{sys.executable} -m venv")
    assert text.count("pip install") == 1
    return text.replace("pip install", f"{uv} pip install --quiet --find-links wheels"), uv


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def environment(port):
    """Of somebody who has set nothing, but for Airflow's port, which may be in use here."""
    url = f"http://127.0.0.1:{port}"
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],  # it says where the registry is
        **{
            name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_", "LANG", "TMP"))
        },
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__PARALLELISM": "2",
    }


@pytest.mark.long
@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.timeout(LONGEST + UP + 60)
def test_a_clean_machine_gets_to_a_dag_run_and_its_page(tmp_path, environment, port):
    text, uv = script()
    build = [uv, "build", "--quiet", "--wheel", "--python", sys.executable, "--out-dir", tmp_path / "wheels", PROJECT]
    subprocess.run(build, check=True, capture_output=True)
    timed = re.sub(
        r"^(tidegate run|airflow dags test|airflow standalone)", r'echo "$SECONDS s: \1"; \1', text, flags=re.M
    )
    log = tmp_path / "log"
    with log.open("w") as output:
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", f"{timed}echo $SECONDS s; wait"],
            cwd=tmp_path, env=environment, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        answers = page_answers(shell, port, log)
        said = log.read_text()
        print(*re.findall(r"^\d+ s.*$", said, re.MULTILINE), sep="\n")
        assert "Checkpoint 1 COMPLETED" in said
        assert "WRONG" not in said
        assert answers == {"without a login": 401, "checkpoints": ["COMPLETED", "COMPLETED"]}, said[-3000:]
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        shell.wait()
        stopped = [tmp_path / ".venv/bin/tidegate", "db", "stop"]
        subprocess.run(stopped, cwd=tmp_path / "shop", env=environment, check=True)


def page_answers(shell, port, log):
    """What Airflow's server says of the pages, once it is up."""
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + LONGEST
    passwords = log.parent / "shop/.airflow/simple_auth_manager_passwords.json.generated"
    while time.monotonic() < deadline:
        assert shell.poll() is None, log.read_text()[-3000:]
        try:
            httpx.get(f"{url}/api/v2/version", timeout=10).raise_for_status()
            break
        except httpx.HTTPError:
            time.sleep(1)
    login = {"username": "admin", "password": json.loads(passwords.read_text())["admin"]}
    token = httpx.post(f"{url}/auth/token", json=login, timeout=60).raise_for_status().json()["access_token"]
    api = f"{url}/tidegate/api/v1/pipelines/example/checkpoints"
    known = httpx.get(api, headers={"Authorization": f"Bearer {token}"}, timeout=60).raise_for_status().json()
    return {
        "without a login": httpx.get(f"{url}/tidegate/", timeout=60).status_code,
        "checkpoints": [each["status"] for each in known["history"]],
    }
