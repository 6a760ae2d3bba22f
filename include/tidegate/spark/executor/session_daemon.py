"""The Python daemon of a Spark Connect server that stays up. Spark starts this as a module.

Such a server starts a daemon for each session and ends none, so that a month of DAG runs would leave thousands. This
one ends when it has had no worker for a while: Spark starts another if the session wants one after all. Spark itself
ends workers that have had nothing to do for a minute.
"""

import os
import signal
import time
from types import FrameType

from tidegate.spark.executor import daemon

#: Seconds without a worker after which nobody is likely to want one.
IDLE = 120.0


def main(idle: float = IDLE) -> None:
    daemon.prepare()  # which may take longer than that on a busy machine
    _end_when_idle(idle)
    try:
        daemon.fork_workers()
    finally:  # Python resets signal handlers as it exits; a later alarm would kill the daemon
        signal.setitimer(signal.ITIMER_REAL, 0)


def _end_when_idle(idle: float) -> None:
    """By a timer, which workers do not inherit when they are forked. The daemon itself waits for the JVM in a loop that
    is PySpark's."""
    used = time.monotonic()

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal used
        if _has_workers():
            used = time.monotonic()
        elif time.monotonic() - used > idle:
            os.kill(os.getpid(), signal.SIGTERM)  # PySpark's handler removes the socket

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, idle / 10, idle / 10)


def _has_workers() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main()
