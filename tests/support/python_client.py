"""Stands for `python` in a command line: the program runs in a fork of a process that has imported what it needs.

`python -ISE python_client.py SOCKET ARGUMENT…`. What it is given, its directory, its environment and its three streams
go to the server (`python_server.py`), signals to the program. It ends as the program does. If it is killed, so is that.

It imports as little as it can: it is started for every command.
"""

import _signal
import _socket
import os
import sys

FORWARDED = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM, _signal.SIGUSR1, _signal.SIGUSR2)


def main(address, arguments):
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    server.connect(address)
    request = b"\0".join(_words(arguments))
    streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in (0, 1, 2))
    server.sendmsg([len(request).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    server.sendall(request)
    with open(server.fileno(), "rb", closefd=False) as answers:
        _forward_signals(_number(answers, address))
        return _number(answers, address)


def _words(arguments):
    yield b"%d" % len(arguments)
    yield from map(os.fsencode, arguments)
    yield os.fsencode(os.getcwd())
    for name, value in os.environb.items():
        yield b"%s=%s" % (name, value)


def _number(answers, address):
    line = answers.readline()
    if not line:
        with open(f"{address}.log") as log:
            sys.exit(f"The Python server has ended, or lost this program:\n{log.read()[-3000:]}")
    return int(line)


def _forward_signals(program):
    def forward(number, frame):
        try:
            os.kill(program, number)
        except ProcessLookupError:
            return  # it ends, and says so

    for number in FORWARDED:
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, forward)


def end(code):
    """As the program did: a negative code is the signal that has killed it."""
    if code < 0:
        if -code in FORWARDED:
            _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    end(main(sys.argv[1], sys.argv[2:]))
