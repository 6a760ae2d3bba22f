"""Workload W on Flink: a job of `FlinkEngine.java` in a process of its own, and one checkpoint an epoch.

Its seconds count from the moment at which the sources may read the events until the checkpoint after them is completed.
"""

import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import conditions
import measuring
import numpy as np
from process_tree import MemorySampler, processor_seconds
from workload import TOTALS, Workload, differences

#: The share of a process's memory that Flink gives to RocksDB by default, of as much as the driver of Spark has.
MANAGED_MEMORY = "819m"
#: As a value it asks for a key's totals; as in `FlinkEngine.java`.
_ASKED = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Flink:
    """How it is started."""

    java: Path
    classpath: str


def write_flat(workload: Workload, directory: Path) -> None:
    """The events as Flink's sources read them: pairs of integers, without a format. And who is asked in the end."""
    directory.mkdir(parents=True)
    for epoch, (keys, values) in workload.files():
        np.column_stack([keys, values]).astype("<i8").tofile(directory / f"{epoch.number:03}")
    asked = np.column_stack([np.arange(workload.keys), np.full(workload.keys, _ASKED)])
    asked.astype("<i8").tofile(directory / "asked")


def measure(
    flink: Flink, backend: str, workload: Workload, places: tuple[Path, Path], expected: dict[str, Any]
) -> list[dict[str, Any]]:
    """The epochs on one state backend, but for that of a restart, which is taken and not counted. `places` are the
    files of events, and where it works. Raises `RuntimeError` where a total is wrong."""
    data, root = places
    (root / "local").mkdir(parents=True)
    epochs = []
    with (root / "log").open("wb") as log:
        process = subprocess.Popen(
            _command(flink, backend, root, workload.keys), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
    try:
        with MemorySampler(process.pid) as sampler:
            for epoch in workload.epochs():
                processors, begin = processor_seconds(process.pid), time.monotonic()
                seconds = _ask(process, str(data / f"{epoch.number:03}"), root)
                found = {"seconds": seconds, "processors": processor_seconds(process.pid) - processors}
                memory = sampler.peak(begin, time.monotonic())
                epochs.append({**asdict(epoch), **found, "memory": memory})
            _ask(process, f"tell {root / 'told'} {data / 'asked'}", root)
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    finally:
        process.kill()
        process.wait()
    measuring.check(f"Flink on {backend}", workload.keys, differences(expected, _totals_of(root / "told")))
    return [epoch for epoch in epochs if epoch["phase"] != "restart"]


def heap(backend: str, keys: int) -> str:
    """As much as Spark's driver; with 10 M keys the heap backend needs more."""
    return "6g" if backend == "hashmap" and keys > 5_000_000 else conditions.DRIVER_MEMORY


def _command(flink: Flink, backend: str, root: Path, keys: int) -> list[str]:
    options = [f"-Xmx{heap(backend, keys)}", conditions.java_option(), "-cp", flink.classpath]
    asked = [backend, str(root.resolve()), str(conditions.PARALLELISM), MANAGED_MEMORY]
    return [str(flink.java), *options, "FlinkEngine", *asked]


def _ask(process: "subprocess.Popen[bytes]", line: str, root: Path) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{line}\n".encode())
        process.stdin.flush()
        return float(process.stdout.readline())
    except (BrokenPipeError, ValueError) as error:
        raise RuntimeError(f"Flink's process failed; see {root / 'log'}") from error


def _totals_of(told: Path) -> dict[str, Any]:
    """What each subtask has told of its keys."""
    rows = np.concatenate([np.fromfile(path, ">i8").reshape(-1, len(TOTALS)) for path in sorted(told.iterdir())])
    return dict(zip(TOTALS, rows.astype(np.int64).T, strict=True))
