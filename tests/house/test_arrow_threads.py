"""Small Parquet files are read by the thread that asks for them.

`pyarrow.parquet.read_table` reads by threads that may let go of what was read after it has returned. Where the
interpreter ends at that moment, the process aborts: `tidegate restore` had printed its plan and exited with 134.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "include" / "tidegate"

READS = """
import os
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tidegate.protocol.facts.records import HandleKind, StateHandle
from tidegate.sources import manifests
from tidegate.spark.executor import exchange
from tidegate.state.stored import StoredState

def threads():
    return len(os.listdir("/proc/self/task"))

table = manifests._table([manifests.ReadFile(manifests.FileVersion("a.csv", 5, 7), 3)])
content = manifests._encode(table)
Path("files.parquet").write_bytes(content)
handle = StateHandle("files.parquet", HandleKind.EXCHANGE, 1, len(content), sha256(content).hexdigest(), 3)
begun = threads()
assert manifests._decode(content, table.column_names) == table
assert StoredState(os.getcwd(), None).files_of(handle, 3) == [("a.csv", 5)]
[batch] = exchange.read_exchange(handle, os.getcwd(), pq.read_schema("files.parquet"))
assert batch.num_rows == 1
print(threads() - begun)
if {planted}:
    pq.read_table("files.parquet")
    print(threads() - begun)
"""


@pytest.mark.parametrize("planted", [False, True])
def test_what_reads_small_files_starts_no_thread(planted, tmp_path):
    code = READS.replace("{planted}", str(planted))
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 or planted, ran.stderr
    quiet, *noisy = map(int, ran.stdout.split())
    assert quiet == 0
    assert all(noisy)
    assert len(noisy) == planted


def calls(source: str) -> list[int]:
    """The lines that read a Parquet file by threads. A sink's method of that name is not meant."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("pq.read_table", "pyarrow.parquet.read_table")
    ]


def test_nothing_of_ours_reads_by_threads():
    assert {str(path): found for path in PACKAGE.rglob("*.py") if (found := calls(path.read_text()))} == {}
    assert calls("import pyarrow.parquet as pq\ntable = pq.read_table(name)") == [2]
