"""What a Python worker keeps of the memory that its tasks have given back."""

import subprocess
import sys

import pytest

from tidegate.spark.executor.memory import private

pytestmark = pytest.mark.skipif(private() is None, reason="this system does not say how large a process is")

PROGRAM = """
import os
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
import resource
import numpy as np
from tidegate.spark.executor import memory

remembered = []

def task(megabytes):
    pieces = [np.ones(1 << 17) for _ in range(megabytes)]
    remembered.append(np.ones(10_000))  # behind the pieces, so that the system's allocator keeps those
    del pieces
    memory.give_back()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

task(8)
task(8)
before, small = faults(), memory.private()
for _ in range(20):
    task(8)
print((faults() - before) // 20)
task(300)
print(memory.private() <= small + memory.KEPT)
"""


KEEPING = """
import resource
from tidegate.spark.executor import daemon

daemon._keep_freed_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def task():
    pieces = [bytes([1]) * (4 << 20) for _ in range(10)]

task()
before = faults()
task()
print(faults() - before)
"""


def test_what_a_task_has_freed_is_there_for_the_next_one() -> None:
    answer = subprocess.run([sys.executable, "-c", KEEPING], capture_output=True, text=True, check=True)
    assert int(answer.stdout) < 1000  # 40 MiB are 10,240 pages


def test_small_tasks_keep_their_memory_and_a_large_one_gives_it_back() -> None:
    answer = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)

    faults, is_given_back = answer.stdout.split()
    assert int(faults) < 500  # 8 MiB are 2,048 pages
    assert is_given_back == "True"
