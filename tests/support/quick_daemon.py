"""The Python daemon of the tests' Spark Connect server, of which each session has one of its own.

It is forked from a process that has imported what workers need (`python_server.py`), which takes it more processor time
than most tests have work for it. Spark starts this as a module.
"""

import os
import sys

from python_client import end, main

#: The address of that process.
SERVER = "TIDEGATE_TESTS_PYTHON"

#: It leads a session already, so it can have no other group, which it would ask for.
DAEMON = """
import os, runpy
os.setpgid = lambda *_: None
runpy.run_module("tidegate.spark.executor.daemon", run_name="__main__")
"""

if __name__ == "__main__":
    os.environ.pop("PYTHONHASHSEED", None)  # too late for a process that runs; all its forks hash alike
    end(main(os.environ[SERVER], ["-c", DAEMON, *sys.argv[1:]]))
