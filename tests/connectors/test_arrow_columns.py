"""Columns between Arrow, Python and numpy that need no pandas."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.sources.arrow_columns import flags, integers, numbers_of, rows_with_values, strings

TEXTS = st.lists(st.none() | st.text(max_size=5), max_size=20)
NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)


@given(TEXTS)
def test_strings_are_those_that_arrow_would_make(values: list[str | None]) -> None:
    assert strings(values).equals(pa.array(values, pa.string()))


@given(NUMBERS)
def test_integers_are_those_that_arrow_would_make(values: list[int]) -> None:
    assert integers(values).equals(pa.array(values, pa.int64()))
    assert integers(np.array(values, np.int64)[::-1]).equals(pa.array(values[::-1], pa.int64()))


@given(NUMBERS, st.integers(0, 20), st.integers(0, 20))
def test_numbers_are_read_from_slices_and_chunks(values: list[int], begin: int, end: int) -> None:
    column = pa.array(values, pa.int64())
    assert numbers_of(column.slice(begin)).tolist() == values[begin:]
    chunks = pa.chunked_array([column.slice(0, begin), column.slice(begin, end), pa.array([], pa.int64())])
    assert numbers_of(chunks).tolist() == values[: begin + end]


@given(TEXTS, st.integers(0, 20))
def test_rows_with_values_are_those_that_are_not_null(values: list[str | None], begin: int) -> None:
    wanted = [row for row, value in enumerate(values[begin:]) if value is not None]
    assert rows_with_values(strings(values)[begin:]).tolist() == wanted
    assert rows_with_values(pa.chunked_array([strings(values)[begin:]])).tolist() == wanted


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.uint8()])
def test_numbers_keep_their_type(kind: pa.DataType) -> None:
    assert numbers_of(pa.array([1, 2], kind)).dtype == kind.to_pandas_dtype()


def test_a_directory_is_looked_through_and_remembered_without_pandas(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from tidegate import FileSource
from tidegate.ports import SourceContext
from tidegate.state.storage import ArrowCheckpointStorage
root = Path(sys.argv[1])
(root / "landing").mkdir()
storage = ArrowCheckpointStorage(str(root / "checkpoints"))
source = FileSource(str(root / "landing"), format="csv", schema="k STRING")
snapshot = None
for number in range(1, 4):
    (root / "landing" / f"{number}.csv").write_text("k\\na\\n")
    context = SourceContext(storage, number, f"p/chk-{number}/events/0")
    segment, snapshot = source.poll(0, snapshot, context)
    print(len(segment.reference["files"]))
print("pandas" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["1", "1", "1", "False"], ran.stderr


def test_flags_are_those_of_a_list() -> None:
    for values in ([], [True], [False, True, True] * 5):
        assert flags(values).to_pylist() == values
