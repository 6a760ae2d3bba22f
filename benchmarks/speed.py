"""Prints docs/explanation/benchmarks.md from the figures that are kept (`--keep`). README has some of its rows.

    python benchmarks/speed.py > docs/explanation/benchmarks.md

Each figure is a median with the smallest and the largest of its repetitions.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import kept_figures
import measuring
from bench_series import WITH_TABLES
from flink_jars import VERSION
from machine_load import sentence

Sides = Mapping[str, Mapping[str, Sequence[float]]]
FLINK = {"rocksdb": "RocksDB", "hashmap": "heap"}
INTRODUCTION = (
    "How all of this is measured, and how to read it, is in [benchmarks/README.md](../../benchmarks/README.md). "
    "`benchmarks/speed.py` prints this page from the figures that are kept in benchmarks/figures."
)
STREAMING = (
    "`make bench` runs the same events through Tidegate and through Spark Structured Streaming (RocksDB, changelog "
    "checkpoints) in a session as PySpark starts it, with the same collector. Every total is checked. An epoch ends "
    "when its checkpoint is durable. With tables it also keeps one of current rows and one that is appended to, with "
    "three expectations each; Structured Streaming rewrites the first as a whole in `foreachBatch`, as users write it. "
    f"Of epochs with tables {measuring.SMALL_JUDGED} count below 1 M keys and {measuring.LARGE_JUDGED} above. "
    "What is seen are medians (smallest–largest)."
)
WRITTEN = (
    "An epoch of each on both engines: 10 k rows over 100 k keys where nothing else is said. README's pipeline and all "
    "that emits rows write tables, which must have the same rows in the end; behind a filter the state is the only "
    "output. A join keeps the rows of both sides for ever."
)
BESIDE_FLINK = (
    f"`make bench-flink` runs the same events on Flink {VERSION}, without tables. What takes least is in bold. Flink's "
    "job runs on and on in one process, its events have no format, and it syncs nothing to the disk."
)

BESIDE_PYICEBERG = (
    "`make bench-iceberg` commits the same rows by `IcebergSink` and by pyiceberg's own `append` and `upsert`, in "
    "turns, from memory and without Spark; in one line it is all of a pipeline's checkpoint. What counts is processor "
    "time of client and Postgres; the sink's is that of staging, metadata and commit. It syncs its files to the disk "
    "and keeps a SHA-256 of each, and pyiceberg does neither. For updates the sink writes all rows again, which it "
    "gets from the operator's state; `upsert` gets those that have changed."
)
TOGETHER = (
    "Three tables in one commit, a thousand rows into each and five checkpoints kept: seconds by the clock, and "
    "processor time without that of Postgres."
)
BESIDE_CONSUME = (
    "`make bench-kafka` reads the same records of one partition, of about 110 bytes, by what Spark's tasks read topics "
    "with, and by confluent-kafka's `consume` alone, a thousand at a time, without a look at the messages. pyarrow "
    "parses the same JSON from memory. In turns, in one process, without Spark. What counts is the processor time of "
    "that process, so not that of the broker. Structured Streaming has no figure: its jar for Kafka is not on PyPI."
)


def main() -> None:
    bench, flink, iceberg, shapes, kafka = map(kept_figures.read, ("bench", "flink", "iceberg", "shapes", "kafka"))
    if bench is None:
        sys.exit("There are no figures yet: make bench ARGS=--keep, and make bench-flink ARGS=--keep.")
    print(*page(bench, flink, iceberg, shapes, kafka), sep="\n")


def page(
    bench: Mapping[str, Any],
    flink: Mapping[str, Any] | None,
    iceberg: Mapping[str, Any] | None,
    shapes: Mapping[str, Any] | None,
    kafka: Mapping[str, Any] | None,
) -> Iterator[str]:
    """All of it, line by line."""
    yield from ("# Benchmarks: Tidegate, Structured Streaming, Flink and pyiceberg", "", INTRODUCTION, "", STREAMING)
    if shapes is not None:
        yield from ("", "## What people write", "", WRITTEN, "", *beside_streaming(shapes))
    yield from ("", "## Straight into an aggregate", "", *beside_streaming(bench))
    if flink is not None:
        yield from ("", "## Beside Flink", "", BESIDE_FLINK, "", *beside_flink(flink))
    if iceberg is not None:
        yield from ("", "## Iceberg tables", "", BESIDE_PYICEBERG, "", *beside_pyiceberg(iceberg))
    if kafka is not None:
        yield from ("", "## Topics", "", BESIDE_CONSUME, "", *beside_consume(kafka))


def beside_streaming(kept: Mapping[str, Any]) -> Iterator[str]:
    series: Mapping[str, Sides] = kept["series"]
    yield conditions(kept)
    yield ""
    yield "| keys, events an epoch | Tidegate | Structured Streaming | ratio | processor time | ratio |"
    yield "|---|---|---|---|---|---|"
    compared = {
        what: sides for what, sides in series.items() if "streaming" in sides and "seconds" in sides["tidegate"]
    }
    plain = [what for what in compared if not what.endswith(WITH_TABLES)]
    for what in [*plain, *(what for what in compared if what.endswith(WITH_TABLES))]:
        ours, theirs = compared[what]["tidegate"], compared[what]["streaming"]
        cells = [cell for kind in ("seconds", "processors") for cell in _pair(ours[kind], theirs[kind])]
        yield f"| {what} | {cells[0]} | {cells[1]} | {cells[2]} | {cells[3]} : {cells[4]} | {cells[5]} |"
    for what, sides in series.items():
        if "bytes" in sides["tidegate"]:
            ours_peak, theirs_peak = (sides[side]["bytes"][0] for side in ("tidegate", "streaming"))
            ratio = f"{ours_peak / theirs_peak:.2f}"
            yield f"| {what} | {_mebibytes(ours_peak)} | {_mebibytes(theirs_peak)} | {ratio} | | |"


def beside_flink(kept: Mapping[str, Any]) -> Iterator[str]:
    """Whoever takes least is in bold: the reader sees where that is Flink."""
    series: Mapping[str, Sides] = kept["series"]
    yield conditions(kept)
    yield ""
    sides = ["tidegate", *FLINK]
    names = ["Tidegate", *(f"Flink, {name}" for name in FLINK.values())]
    yield f"| keys, events an epoch | {' | '.join(names)} | processor time of each |"
    yield "|---|---|---|---|---|"
    for what, found in series.items():
        if "bytes" in found["tidegate"]:
            continue
        medians = [median(found[side]["seconds"]) for side in sides]
        cells = [_spread(found[side]["seconds"]) for side in sides]
        shown = [f"**{cell}**" if took == min(medians) else cell for cell, took in zip(cells, medians, strict=True)]
        processors = " : ".join(f"{median(found[side]['processors']):.2f} s" for side in sides)
        yield f"| {what} | {' | '.join(shown)} | {processors} |"
    for what, found in series.items():
        if "bytes" in found["tidegate"]:
            yield f"| {what} | {' | '.join(_mebibytes(found[side]['bytes'][0]) for side in sides)} | |"
    if faster := [what for what, found in series.items() if _is_faster(found)]:
        yield ""
        yield f"Flink is faster at {'; '.join(faster)}."


def beside_pyiceberg(kept: Mapping[str, Any]) -> Iterator[str]:
    series: Mapping[str, Sides] = kept["series"]
    yield conditions(kept)
    yield ""
    yield "| processor time | Tidegate | pyiceberg | ratio |"
    yield "|---|---|---|---|"
    for what, sides in series.items():
        if "pyiceberg" in sides:
            cells = _pair(*(sides[side]["processors"] for side in ("tidegate", "pyiceberg")))
            yield f"| {what} | {' | '.join(cells)} |"
    yield from ("", TOGETHER, "", "| checkpoint | step | by the clock | processor time |", "|---|---|---|---|")
    for what, sides in series.items():
        if "pyiceberg" not in sides:
            checkpoint, _, step = what.rpartition(": ")
            took = " | ".join(_spread(sides["tidegate"][kind]) for kind in ("seconds", "processors"))
            yield f"| {checkpoint.rpartition(' ')[2]} | {step} | {took} |"


def beside_consume(kept: Mapping[str, Any]) -> Iterator[str]:
    """The last column says how many records a second Tidegate reads, of those of `consume` alone."""
    series: Mapping[str, Sides] = kept["series"]
    yield conditions(kept)
    yield ""
    yield "| processor time | Tidegate | consume alone | pyarrow's JSON alone | rate, of consume alone |"
    yield "|---|---|---|---|---|"
    for what, sides in series.items():
        ours, theirs = (sides[side]["processors"] for side in ("tidegate", "consume"))
        parsed = _spread(sides["pyarrow"]["processors"]) if "pyarrow" in sides else ""
        yield f"| {what} | {_spread(ours)} | {_spread(theirs)} | {parsed} | {median(theirs) / median(ours):.2f} |"


def _is_faster(found: Sides) -> bool:
    """Whether Flink is, on one of its backends."""
    if "bytes" in found["tidegate"]:
        return False
    return min(median(found[side]["seconds"]) for side in FLINK) < median(found["tidegate"]["seconds"])


def conditions(kept: Mapping[str, Any]) -> str:
    machine, load = kept["machine"], sentence(kept["load"]).capitalize()
    on = f"{machine['cores']} cores ({machine['processor']}, {machine['memory']}), Spark {machine['pyspark']}"
    return f"Measured at commit {kept['commit']} on {kept['date'][:10]}, on {on}: {kept['policy']}. {load}."


def _pair(ours: Sequence[float], theirs: Sequence[float]) -> tuple[str, str, str]:
    return _spread(ours), _spread(theirs), f"{median(ours) / median(theirs):.2f}"


def _spread(values: Sequence[float]) -> str:
    shown = f"{median(values):.2f} s"
    return shown if len(values) == 1 else f"{shown} ({min(values):.2f}–{max(values):.2f})"


def _mebibytes(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


if __name__ == "__main__":
    main()
