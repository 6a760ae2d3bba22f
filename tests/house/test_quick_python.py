"""What stands for `python` in tests (`quick_python.py`) is, to a program, what a process of its own would be."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest

FACTS = """
import json, os, signal, sys, threading

print(json.dumps({
    "arguments": sys.argv[1:],
    "all": sys.orig_argv[-2:],
    "name": __name__,
    "directory": os.getcwd(),
    "environment": dict(os.environ),
    "path": sys.path,
    "python": [sys.executable, sys.prefix],
    "streams": [
        [each.name, each.encoding, each.errors, each.line_buffering, each.write_through, each.fileno()]
        for each in (sys.stdin, sys.stdout, sys.stderr)
    ],
    "handlers": {each.name: str(signal.getsignal(each)) for each in signal.Signals},
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "open": len(os.listdir("/proc/self/fd")),
    "threads": [threading.active_count(), threading.current_thread().name],
    "asked": input(),
}))
"""


def run(python, *arguments, place, **changes):
    environment = os.environ | {"PYTHONPATH": f"{place}/more:{os.environ.get('PYTHONPATH', '')}", "LIKE": "ü"} | changes
    return subprocess.run(
        [*python, *arguments],
        capture_output=True, text=True, cwd=place, env=environment, timeout=120, input="yes\n",
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run in the background
    )  # fmt: skip


@pytest.mark.parametrize("begun", [["-c", FACTS], ["-m", "facts"], ["facts.py"]], ids=lambda begun: begun[0])
def test_a_program_finds_what_it_would_in_a_process_of_its_own(quick_python, tmp_path, begun):
    (tmp_path / "facts.py").write_text(FACTS)
    quick, real = (run(each, *begun, "-x", "two words", place=tmp_path) for each in (quick_python, [sys.executable]))
    # gRPC, which was imported before the fork, logs that its poller lost its descriptor there: on busy machines only.
    assert [line for line in quick.stderr.splitlines() if "(event_engine)" not in line] == []
    assert real.stderr == ""
    assert json.loads(quick.stdout) == json.loads(real.stdout)


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.exit(7)",
        "import sys; sys.exit('no')",
        "1 / 0",
        "raise KeyboardInterrupt",
        "import os; os.kill(os.getpid(), 15)",
        "import atexit, sys; atexit.register(print, 'last'); print('first')",
        "import threading; threading.Timer(0.2, lambda: print('late')).start()",
        "import os; os.write(1, b'raw'); os._exit(3)",
    ],
)
def test_it_ends_as_it_would(quick_python, tmp_path, program):
    quick, real = (run(each, "-c", program, place=tmp_path) for each in (quick_python, [sys.executable]))
    assert (quick.returncode, quick.stdout) == (real.returncode, real.stdout)
    assert quick.stderr.splitlines()[-1:] == real.stderr.splitlines()[-1:]


def test_programs_share_nothing_that_one_of_them_makes(quick_python, tmp_path):
    program = """
import os, random, numpy, uuid, tempfile, shop
print(random.random(), numpy.random.random(), uuid.uuid4(), tempfile.gettempdir(), shop.NUMBER, os.getsid(0), sep="\\n")
"""
    said = []
    for number in (1, 2):
        (tmp_path / f"home{number}").mkdir()
        (tmp_path / f"home{number}" / "shop.py").write_text(f"NUMBER = {number}")
        place = tmp_path / f"home{number}"
        ended = run(quick_python, "-c", program, place=place, TMPDIR=str(place))
        assert ended.returncode == 0, ended.stderr
        said.append(ended.stdout.split())
    assert [(one[3], one[4]) for one in said] == [(f"{tmp_path}/home{number}", str(number)) for number in (1, 2)]
    assert not set(said[0]) & set(said[1])


def test_what_an_import_has_read_cannot_be_changed_and_that_is_said(quick_python, tmp_path):
    for changed in ({"TYPER_USE_RICH": "0"}, {"PYTHONHASHSEED": "1"}):
        refused = run(quick_python, "-c", "print('here')", place=tmp_path, **changed)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert f"Needs a process of its own, which has read {next(iter(changed))} when it began." in refused.stderr


WAITING = """
import os, signal, subprocess, sys, time

def stop(number, frame):
    print("stopped", flush=True)
    sys.exit(9)

signal.signal(signal.SIGTERM, stop)
helper = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
print(os.getpid(), helper.pid, flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def waiting(quick_python):
    client = subprocess.Popen([*quick_python, "-c", WAITING], stdout=subprocess.PIPE, text=True)
    program, helper = (psutil.Process(int(pid)) for pid in client.stdout.readline().split())
    yield client, program, helper
    with suppress(psutil.NoSuchProcess):
        helper.kill()
    client.kill()
    client.communicate()


def test_a_signal_reaches_it(waiting):
    client, _, _ = waiting
    client.send_signal(signal.SIGTERM)
    assert client.wait(60) == 9
    assert client.stdout.read() == "stopped\n"


def test_it_is_killed_with_who_has_started_it(waiting):
    client, program, helper = waiting
    client.kill()
    gone, alive = psutil.wait_procs([program, helper], timeout=60)
    assert (len(gone), alive) == (2, [])
