"""A Python that has imported what commands need, and forks for each program that is to run in it.

It listens at the socket that is its standard input. A client (`python_client.py`) sends what would stand behind
`python` in a command line, and the program runs in a fork, with the client's directory, environment, path and streams,
in a session of its own. What an import has read from the environment cannot be changed any more: where a program's
value of it is another one, the program is refused.

Modules of the program's own project are imported anew each time: they are not imported here.
"""

import atexit
import gc
import importlib
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, ItemsView
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

#: None of these starts a thread, a JVM or a connection when it is imported: a fork would lose it.
IMPORTED = (
    "alembic.command",
    "grpc",
    "numpy.random",
    "pandas",
    "psycopg2.sql",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.fs",
    "pyarrow.parquet",
    "pyspark.sql.connect.client.retries",
    "pyspark.sql.connect.functions",
    "pyspark.sql.connect.session",
    "pyspark.sql.functions",
    "rich.progress",
    "tidegate.assembly",
    "tidegate.cli.main",
)


class Server:
    """Forks, and tells each client how its program has ended."""

    def __init__(self, listener: socket.socket, become: Callable[[socket.socket], int]) -> None:
        self._listener, self._become = listener, become
        self._clients: dict[int, socket.socket] = {}  # by the process of their program
        self._ended, ending = socket.socketpair()
        for each in (self._ended, ending):
            each.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(ending.fileno(), warn_on_full_buffer=False)
        self._ending = ending

    def serve(self) -> None:
        while True:
            waiting = select.poll()
            for each in (self._listener, self._ended):
                waiting.register(each, select.POLLIN)
            for client in self._clients.values():
                waiting.register(client, 0)  # told when it is gone
            ready = {number for number, _ in waiting.poll()}
            for pid, client in self._clients.items():
                if client.fileno() in ready:
                    _kill(pid)
            if self._ended.fileno() in ready:
                self._ended.recv(4096)
                self._tell()
            if self._listener.fileno() in ready:
                self._begin(self._listener.accept()[0])

    def _begin(self, client: socket.socket) -> None:
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
            for each in (self._listener, self._ended, self._ending, *self._clients.values()):
                each.close()
            _end(self._become(client))
        self._clients[pid] = client
        _say(client, pid)

    def _tell(self) -> None:
        while self._clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            client = self._clients.pop(pid)
            _say(client, os.waitstatus_to_exitcode(status))
            client.close()


def _say(client: socket.socket, number: int) -> None:
    with suppress(OSError):  # it was killed
        client.sendall(b"%d\n" % number)


def _kill(pid: int) -> None:
    """The program and what it has started, as far as that has no session of its own."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):  # it has no session yet, or none any more
            kill(pid, signal.SIGKILL)


class Program:
    """What a fork becomes, beginning with a process in which all is imported."""

    def __init__(self, own_path: list[str], begun: dict[str, str], read: set[str]) -> None:
        """`begun`: the environment at the start, of which imports have `read` these names."""
        self._own_path, self._begun, self._read = own_path, begun, read

    def run(self, client: socket.socket) -> int:
        """Its exit code."""
        return _exit_code(lambda: self._run(client))

    def _run(self, client: socket.socket) -> None:
        os.setsid()
        arguments, directory, environment, streams = _received(client)
        client.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(directory)
        os.environb.clear()
        os.environb.update(environment)
        self._forget_the_server()
        if changed := sorted(filter(self._is_too_late, self._begun.keys() | os.environ.keys())):
            sys.exit(f"Needs a process of its own, which has read {', '.join(changed)} when it began.")
        self._start(arguments)

    def _is_too_late(self, name: str) -> bool:
        """But for the home: what a user has set up there for all projects is asked for, and the server has none. Names
        that begin with `PYTHON_` are Spark's, for workers."""
        interpreters = name.startswith("PYTHON") and not name.startswith("PYTHON_")
        known = (name in self._read or interpreters) and name not in ("HOME", "PYTHONPATH", "PYTHONUNBUFFERED")
        return known and os.environ.get(name) != self._begun.get(name)

    def _forget_the_server(self) -> None:
        """What a process has of its own since its start. `random` sees to itself."""
        sys.modules["numpy"].random.seed()
        time.tzset()
        tempfile.tempdir = None
        unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
        sys.stdout.reconfigure(line_buffering=sys.stdout.isatty(), write_through=unbuffered)

    def _start(self, arguments: list[str]) -> None:
        sys.orig_argv = [sys.executable, *arguments]
        option, *words = arguments
        if option in ("-c", "-m"):
            name, *words = words
        else:
            name = option
        sys.argv = [option, *words]
        first = {"-c": "", "-m": os.getcwd()}.get(option, str(Path(name).resolve().parent))
        sys.path[:] = [first, *dict.fromkeys([*_given_places(), *self._own_path])]
        importlib.invalidate_caches()
        if option == "-c":
            sys.modules["__main__"] = main = type(sys)("__main__")
            exec(compile(name, "<string>", "exec"), vars(main))
        elif option == "-m":
            sys.modules.pop(name, None)  # it is run, not imported
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(name, run_name="__main__")


def _given_places() -> list[str]:
    given = os.environ.get("PYTHONPATH")
    return [os.path.abspath(place) for place in given.split(os.pathsep)] if given else []  # an empty one is here


def _received(client: socket.socket) -> tuple[list[str], bytes, dict[bytes, bytes], list[int]]:
    """Arguments, directory, environment and streams of a program."""
    size, streams, _, _ = socket.recv_fds(client, 8, 3)
    with client.makefile("rb") as request:
        words = request.read(int.from_bytes(size, "big")).split(b"\0")
    number = int(words[0]) + 1
    environment = dict(word.split(b"=", 1) for word in words[number + 1 :])
    return [os.fsdecode(word) for word in words[1:number]], words[number], environment, list(streams)


def _exit_code(start: Callable[[], None]) -> int:
    """As the interpreter decides it."""
    try:
        start()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        return -signal.SIGINT
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _end(code: int) -> None:
    """As the interpreter does, but for taking every module apart."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # nobody reads it any more
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


class Environment(type(os.environ)):
    """Remembers which names were asked for. Who looks through all of it looks for what it has not."""

    asked: ClassVar[set[str]] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return super().__getitem__(name)

    def items(self) -> ItemsView[str, str]:
        return {name: super(Environment, self).__getitem__(name) for name in self}.items()


def _import() -> set[str]:
    """Import everything, and return what the environment was asked for meanwhile."""
    os.environ.__class__ = Environment
    for name in IMPORTED:
        importlib.import_module(name)
    from tidegate.quality.importing import load_great_expectations

    load_great_expectations()
    os.environ.__class__ = Environment.__base__
    assert threading.active_count() == 1, threading.enumerate()
    return Environment.asked


def main() -> None:
    listener = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    own_path = [place for place in sys.path[1:] if place not in _given_places()]
    program = Program(own_path, dict(os.environ), _import())
    gc.collect()
    gc.freeze()  # its pages are shared as long as nobody counts what is on them
    Server(listener, program.run).serve()


if __name__ == "__main__":
    main()
