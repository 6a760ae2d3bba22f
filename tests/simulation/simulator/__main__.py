"""`make simulate`: many seeds on every core, or one of them again."""

import argparse
import logging
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial

from simulator.dataflow import Dataflow
from simulator.report import Simulation, failure
from simulator.running import Running
from simulator.world import World

BLOCK = 50
MOST_SHOWN = 3
TELL_EVERY = 5.0  # seconds


def run_seed(seed: int, trace: int | None = 40) -> str | None:
    """What went wrong, if anything did: in a scheduled pipeline, in a continuous one, or around the gates alone."""
    found = error_of(seed, trace)
    return None if found is None else failure(*found)


def error_of(seed: int, trace: int | None = 40) -> tuple[Simulation, BaseException] | None:
    """The same, and in which of them."""
    for make in (partial(World, seed, trace), partial(Running, seed), partial(Dataflow, seed)):
        simulation = make()
        try:
            simulation.run()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return simulation, error
    return None


def run_block(seeds: Sequence[int]) -> list[str]:
    logging.getLogger("tidegate").setLevel(logging.CRITICAL)  # it tells of the trouble, which is the point here
    return [found for seed in seeds if (found := run_seed(seed))]


def run_many(first: int, seeds: int, jobs: int) -> int:
    """The number of failures."""
    blocks = [range(at, min(at + BLOCK, first + seeds)) for at in range(first, first + seeds, BLOCK)]
    started, told, done, failures = time.monotonic(), 0.0, 0, 0
    with ProcessPoolExecutor(jobs) as pool:
        running = {pool.submit(run_block, block): len(block) for block in blocks}
        for future in as_completed(running):
            done += running[future]
            for found in future.result():
                failures += 1
                if failures <= MOST_SHOWN:
                    print(f"\n{found}\n")
            seconds = time.monotonic() - started
            if seconds - told > TELL_EVERY or done == seeds:
                told = seconds
                tell(
                    f"{done} of {seeds} seeds, {failures} failed, {seconds:.1f} s, {done / seconds:.0f} a second",
                    done == seeds,
                )
    return failures


def tell(progress: str, is_last: bool) -> None:
    """One line that is replaced, where somebody watches."""
    if sys.stdout.isatty():
        print(f"\r{progress}", end="\n" if is_last else "", flush=True)
    else:
        print(progress, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one and show its trace")
    parser.add_argument("--full", action="store_true", help="with --seed: the whole trace, not its end")
    parser.add_argument("--seeds", type=int, default=1000, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.seed is None:
        return 1 if run_many(arguments.first, arguments.seeds, arguments.jobs) else 0
    logging.getLogger("tidegate").setLevel(logging.CRITICAL)
    found = run_seed(arguments.seed, None if arguments.full else 40)
    print(found or f"Seed {arguments.seed}: nothing went wrong.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
