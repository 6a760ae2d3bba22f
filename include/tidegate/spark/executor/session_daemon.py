"""The Python daemon of a long-running Spark Connect server. Spark starts this as a module.

Such a server starts a daemon for each session and ends none, so that a month of DAG runs would leave thousands. This
daemon ends when it has had no worker for a while; Spark starts another if the session needs one later. Spark itself
ends workers that have been idle for a minute.
"""

import os
import signal
import time
from types import FrameType

from tidegate.spark.executor import daemon

#: Seconds without a worker after which the daemon ends.
IDLE = 120.0


def main(idle: float = IDLE) -> None:
    daemon.prepare()  # may take longer than the idle time on a busy machine
    _end_when_idle(idle)
    try:
        daemon.fork_workers()
    finally:  # Python resets signal handlers as it exits; a later alarm would kill the daemon
        signal.setitimer(signal.ITIMER_REAL, 0)


def _end_when_idle(idle: float) -> None:
    """End the daemon by a timer, which forked workers do not inherit. The daemon itself waits for the JVM in PySpark's
    loop."""
    used = time.monotonic()

    def check(number: int, frame: FrameType | None) -> None:
        nonlocal used
        if _has_workers():
            used = time.monotonic()
        elif time.monotonic() - used > idle:
            os.kill(os.getpid(), signal.SIGTERM)  # PySpark's handler removes the socket

    signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, idle / 10, idle / 10)


def _has_workers() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main()
