"""`make bench-kafka`: a topic as `KafkaSource` reads it, beside confluent-kafka's `consume` alone, and pyarrow's JSON.

    python benchmarks/beside_consume.py [--rows N] [--times N] [--keep]

What is measured and how is in the README beside this file.
"""

import argparse
import json
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import kept_figures
import machine
import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kept_figures import Series
from machine_load import Load
from pyarrow import json as arrow_json

from tidegate.kafka.column_types import arrow_columns
from tidegate.kafka.connections import Brokers
from tidegate.kafka.formats import Format
from tidegate.kafka.refusals import Topic
from tidegate.kafka.rows import KafkaRead

TOPIC = "orders"
JSON = "id BIGINT, customer STRING, cents BIGINT, at TIMESTAMP, score DOUBLE"
#: Records of one call of `consume`, as of `KafkaRead`. More at once take much more processor time each.
BLOCK = 1_000
WARM_UPS = 1


def values(rows: int) -> list[bytes]:
    """Records of about 110 bytes."""
    return [
        json.dumps(
            {
                "id": row,
                "customer": f"c{row % 1000}",
                "cents": row * 7 % 10_000,
                "at": f"2026-01-02T10:15:{row % 60:02}.{row % 1000:03}Z",
                "score": row / 7,
            }
        ).encode()
        for row in range(rows)
    ]


@contextmanager
def broker(directory: str) -> Iterator[str]:
    """The broker of the tests, whose own processor time does not count."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    binary = shutil.which("noida-db", path=sysconfig.get_path("scripts"))
    assert binary is not None, "the test group is not installed"
    where = ["--data-dir", directory, "--host", "127.0.0.1", "--only", "kafka", "--kafka-port", str(port)]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([binary, "start", *where], stdout=quiet, stderr=quiet)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def fill(servers: str, records: list[bytes]) -> None:
    admin, deadline = AdminClient({"bootstrap.servers": servers, "log_level": 0}), time.monotonic() + 30
    while True:
        try:
            admin.list_topics(timeout=1)
            break
        except KafkaException:
            if time.monotonic() > deadline:
                raise
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": len(records) + 1})
    for record in records:
        producer.produce(TOPIC, record)
    assert producer.flush(120) == 0


def by_consume(servers: str, rows: int) -> None:
    """The messages alone, without a look at their content."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = 0
    while found < rows:
        found += len([each for each in consumer.consume(BLOCK, 1) if each.error() is None])
    consumer.close()


def by_tidegate(servers: str, rows: int, form: Format, columns: str) -> None:
    read = KafkaRead(Brokers("bench", {"bootstrap.servers": servers}), Topic(TOPIC, "bench"), form, columns)
    found = sum(batch.num_rows for batch in read.batches([(0, 0, rows)], arrow_columns(columns)))
    assert found == rows


def by_pyarrow(records: list[bytes]) -> None:
    """Parse the same records from memory, in blocks of the same size."""
    options = arrow_json.ParseOptions(explicit_schema=arrow_columns(JSON))
    for begin in range(0, len(records), BLOCK):
        data = b"\n".join(records[begin : begin + BLOCK])
        read = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        arrow_json.read_json(pa.BufferReader(data), read, options)


def cost(take: Callable[[], None]) -> tuple[float, float]:
    """Seconds by the clock, and of processors: of this process with all its threads, so not of the broker."""
    begin, processors = time.perf_counter(), time.process_time()
    take()
    return time.perf_counter() - begin, time.process_time() - processors


def measure(servers: str, records: list[bytes], times: int) -> Series:
    rows = len(records)
    sides: dict[tuple[str, str], Callable[[], None]] = {
        ("bytes", "consume"): lambda: by_consume(servers, rows),
        ("bytes", "tidegate"): lambda: by_tidegate(servers, rows, Format("bytes"), "value BINARY"),
        ("JSON", "tidegate"): lambda: by_tidegate(servers, rows, Format("json"), JSON),
        ("JSON", "pyarrow"): lambda: by_pyarrow(records),
    }
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for turn in range(WARM_UPS + times):
        for (what, side), take in sides.items():
            seconds, processors = cost(take)
            if turn >= WARM_UPS:
                kinds = found.setdefault(f"{rows:,} records as {what}", {}).setdefault(side, {})
                kinds.setdefault("seconds", []).append(seconds)
                kinds.setdefault("processors", []).append(processors)
    as_bytes, as_json = found.values()
    as_json["consume"] = as_bytes["consume"]
    return found


def main() -> None:
    options, described = parse(sys.argv[1:]), machine.describe()
    records = values(options.rows)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as home, Load() as load, broker(home) as servers:
        fill(servers, records)
        series = measure(servers, records, options.times)
    for what, of in series.items():
        took = {side: median(kinds["processors"]) for side, kinds in of.items()}
        rate = took["consume"] / took["tidegate"]
        shown = ", ".join(f"{side} {options.rows / seconds:,.0f} a second" for side, seconds in took.items())
        print(f"{what}, of processor time: {shown}; {rate:.2f} of consume alone")
    policy = f"rows {options.rows:,}, times {options.times}"
    now = kept_figures.document(described, load.figures(), policy, series)
    print(*kept_figures.compare_and_keep("kafka", now, options.keep), sep="\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="records of the topic, in one partition")
    parser.add_argument("--times", type=int, default=10, help="how often each way reads all of them")
    parser.add_argument("--keep", action="store_true", help="keep the figures in benchmarks/figures, to compare with")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
