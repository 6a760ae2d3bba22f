"""The tables about speed are printed from the figures that are kept."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
IDLE = {"began": 0.1, "ended": 1.2, "others": 0.01, "others_worst": 0.02}
MACHINE = {"cores": "2", "processor": "a processor", "memory": "8 GiB", "pyspark": "4.2.0"}


def cost(*seconds: float) -> dict[str, list[float]]:
    return {"seconds": list(seconds), "processors": [each / 2 for each in seconds]}


def kept(series: dict[str, Any]) -> dict[str, Any]:
    from kept_figures import document

    return {**document(MACHINE, IDLE, "ten epochs", series), "commit": "abc", "date": "2026-11-24T00:00:00+00:00"}


def test_what_is_compared_with_structured_streaming_is_a_row() -> None:
    from speed import beside_streaming

    bench = kept(
        {
            "100 k keys, 10 k events, with tables": {"tidegate": cost(0.5), "streaming": cost(2.0)},
            "100 k keys, 10 k events": {"tidegate": cost(0.2, 0.4, 0.3), "streaming": cost(0.6, 0.5, 0.9)},
            "100 k keys, peak memory": {"tidegate": {"bytes": [2**29]}, "streaming": {"bytes": [2**30]}},
            "fixed cost": {"tidegate": {"seconds": [0.1]}},
        }
    )
    said, _, *table = beside_streaming(bench)
    assert said == (
        "Measured at commit abc on 2026-11-24, on 2 cores (a processor, 8 GiB), Spark 4.2.0: ten epochs. Load average "
        "0.1 when started and 1.2 at the end; other programs used 1% of the processors, 2% in the worst minute."
    )
    assert table[2:] == [
        "| 100 k keys, 10 k events | 0.30 s (0.20–0.40) | 0.60 s (0.50–0.90) | 0.50 "
        "| 0.15 s (0.10–0.20) : 0.30 s (0.25–0.45) | 0.50 |",
        "| 100 k keys, 10 k events, with tables | 0.50 s | 2.00 s | 0.25 | 0.25 s : 1.00 s | 0.25 |",
        "| 100 k keys, peak memory | 512 MiB | 1,024 MiB | 0.50 | | |",
    ]


def test_where_flink_is_faster_is_seen() -> None:
    from speed import beside_flink

    flink = kept(
        {
            "100 k keys, 10 k events": {"tidegate": cost(0.3), "rocksdb": cost(0.1), "hashmap": cost(0.05)},
            "10 M keys, 1 M events": {"tidegate": cost(1.0), "rocksdb": cost(6.0), "hashmap": cost(4.0)},
            "10 M keys, peak memory": {side: {"bytes": [2**30]} for side in ("tidegate", "rocksdb", "hashmap")},
        }
    )
    assert list(beside_flink(flink))[4:] == [
        "| 100 k keys, 10 k events | 0.30 s | 0.10 s | **0.05 s** | 0.15 s : 0.05 s : 0.03 s |",
        "| 10 M keys, 1 M events | **1.00 s** | 6.00 s | 4.00 s | 0.50 s : 3.00 s : 2.00 s |",
        "| 10 M keys, peak memory | 1,024 MiB | 1,024 MiB | 1,024 MiB | |",
        "",
        "Flink is faster at 100 k keys, 10 k events.",
    ]


def test_iceberg_tables_are_compared_by_processor_time_and_their_commit_is_told_by_steps() -> None:
    from speed import beside_pyiceberg

    iceberg = kept(
        {
            "append of 1,000,000 rows": {"tidegate": cost(0.6, 0.4, 0.5), "pyiceberg": cost(0.4)},
            "three tables in one commit, checkpoint 1: metadata": {"tidegate": cost(0.2)},
            "three tables in one commit, checkpoint 100: metadata": {"tidegate": cost(0.3)},
        }
    )
    table = list(beside_pyiceberg(iceberg))
    assert table[4:6] == ["| append of 1,000,000 rows | 0.25 s (0.20–0.30) | 0.20 s | 1.25 |", ""]
    assert table[-2:] == ["| 1 | metadata | 0.20 s | 0.10 s |", "| 100 | metadata | 0.30 s | 0.15 s |"]


def test_a_topic_is_compared_by_records_a_second_of_processor_time() -> None:
    from speed import beside_consume

    as_bytes = {"tidegate": cost(0.5), "consume": cost(0.4)}
    as_json = {"tidegate": cost(1.0), "consume": cost(0.4), "pyarrow": cost(0.2)}
    table = list(beside_consume(kept({"records as bytes": as_bytes, "records as JSON": as_json})))
    assert table[4:] == [
        "| records as bytes | 0.25 s | 0.20 s |  | 0.80 |",
        "| records as JSON | 0.50 s | 0.20 s | 0.10 s | 0.40 |",
    ]


def test_the_page_is_printed_from_the_figures_and_the_first_page_has_rows_of_it() -> None:
    from kept_figures import read
    from speed import page

    printed = list(page(*map(read, ("bench", "flink", "iceberg", "shapes", "kafka"))))
    assert (ROOT / "docs/explanation/benchmarks.md").read_text().splitlines() == printed
    section = (ROOT / "README.md").read_text().partition("\n## Speed\n")[2].partition("\n## ")[0]
    rows = [_medians(line) for line in section.splitlines() if line.startswith("|")]
    assert len(rows) > 4
    assert [row for row in rows if row not in map(_medians, printed)] == []


def test_the_page_about_iceberg_has_the_same_figures() -> None:
    from kept_figures import read
    from speed import beside_pyiceberg

    iceberg = read("iceberg")
    assert iceberg is not None
    rows = [_medians(line) for line in beside_pyiceberg(iceberg) if "rows" in line and line.endswith(" |")]
    measured = [row[1:3] for row in rows if row[0].startswith(("append of", "10,000 updates"))]
    [table] = (ROOT / "docs/how-to/write-to-iceberg.md").read_text().split("| measured |")[1:]
    assert len(measured) == 3
    assert [each for row in measured for each in row if each not in table.partition("\n\n")[0]] == []


def _medians(row: str) -> list[str]:
    """The first four cells, without the smallest and largest."""
    return [re.sub(r" \(.*?\)", "", cell.strip()) for cell in row.split("|")[1:5]]
