"""The results that a Spark task returns to the driver: one flat row per subtask, with its reports as JSON.

Read by `driver.run_job`. No Python object ever travels back from an executor.
"""

import json
from collections.abc import Sequence
from struct import pack

import pyarrow as pa
from pyspark.sql.types import IntegerType, StringType, StructType

from tidegate.dataflow.reports import Report
from tidegate.protocol.facts.handles import handle_from_json, handle_to_json

#: An object instead of text, which would cost a call to the JVM each time.
REPORT_TYPE = StructType().add("subtask", IntegerType()).add("reports", StringType())
#: A value in place of a subtask's index: nothing was written, and Spark must read the rows.
LEFT_TO_SPARK = -1
_SCHEMA = pa.schema([("subtask", pa.int32()), ("reports", pa.string())])


def encode_reports(subtask_index: int, reports: Sequence[Report]) -> pa.RecordBatch:
    """Return all reports of one subtask, operator and sinks together, as a `pyarrow.RecordBatch` of one row."""
    content = [
        {
            "operator_id": report.operator_id,
            "handles": [handle_to_json(handle) for handle in report.handles],
            "metrics": dict(report.metrics),
            **({} if report.mark is None else {"mark": dict(report.mark)}),
        }
        for report in reports
    ]
    text = json.dumps(content).encode()
    # Created from buffers: with Python lists, pyarrow would import pandas, half a second in every fresh worker.
    arrays = [
        pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(pack("=i", subtask_index))]),
        pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(pack("=ii", 0, len(text))), pa.py_buffer(text)]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def decode_reports(subtask_index: int, reports: str) -> list[Report]:
    return [
        Report(
            report["operator_id"],
            subtask_index,
            tuple(handle_from_json(handle) for handle in report["handles"]),
            report["metrics"],
            report.get("mark"),
        )
        for report in json.loads(reports)
    ]
