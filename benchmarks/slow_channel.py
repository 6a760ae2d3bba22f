"""`make bench-continuous` for one question: what each way to handle barriers does where channels are slow.

    python benchmarks/slow_channel.py [--checkpoints 6] [--directory DIR]

An operator reads one live channel and two with a backlog. Everything is counted in micro-batches, so a busy machine
changes no figure. `docs/explanation/barriers.md` has them. Figures go to stdout as JSON, progress to stderr.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import measuring
from run import database, progress

#: A checkpoint follows on the one before it, so that it always finds the queues full.
ALWAYS = {"interval": "500 ms", "min_pause": "500 ms", "timeout": "10 min"}
WAYS: dict[str, dict[str, Any]] = {
    "aligned": {},
    "at least once": {"mode": "AT_LEAST_ONCE"},
    "unaligned": {"unaligned": True},
    "aligned, unaligned after 2 s": {"unaligned": True, "aligned_checkpoint_timeout": "2 s"},
    "aligned, at most 5 kB behind": {"alignment_limit": 5_000},
}


def measure(root: Path, options: dict[str, Any], checkpoints: int, found: measuring.Database) -> dict[str, Any]:
    root.mkdir()
    arguments = json.dumps(ALWAYS | options), str(checkpoints)
    process = measuring.start("slow_channel_engine.py", str(root), root, found, *arguments)
    if measuring.finished(process) != 0:
        raise RuntimeError(f"The continuous run failed; see {root / 'log'}")
    seen: dict[str, Any] = json.loads((root / "log").read_text().splitlines()[-1])
    return {what: statistics.median(value or [0]) if isinstance(value, list) else value for what, value in seen.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=int, default=6)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="tidegate-bench-", dir=options.directory))
    figures: dict[str, Any] = {}
    for name, way in WAYS.items():
        with database(directory) as found:
            figures[name] = measure(directory / name.replace(" ", "-"), way, options.checkpoints, found)
        progress(f"{name}: {figures[name]}")
    shutil.rmtree(directory)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
