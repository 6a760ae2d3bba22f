"""A continuous run from the command line. It ends at a signal, or when the pipeline no longer runs."""

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

from rich.console import Console

from tidegate import assembly
from tidegate.cli.log_lines import log_to
from tidegate.pipeline.definition import Pipeline
from tidegate.protocol.facts.errors import PipelineFailedError
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus


def run_continuously(defined: Pipeline, console: Console) -> PipelineRecord:
    """Run the pipeline, and return its record as of the end of the run.

    Raises:
        PipelineFailedError: If the pipeline has failed.
        CheckpointError: If the run fails otherwise.
    """
    log = logging.getLogger("tidegate")
    log.setLevel(logging.INFO)
    log.addHandler(log_to(console))
    run = assembly.open_continuous(defined)
    with stopping_on_signals() as stopping:
        console.print(
            f"Pipeline {defined.name} is running. Ctrl-C ends the run; the next run continues from the latest "
            "checkpoint."
        )
        record = run.run(stopping.is_set)
    if record.status is PipelineStatus.FAILED:
        raise PipelineFailedError(f"{record.message} To continue, run `tidegate resume {record.pipeline_id}`.")
    return record


@contextmanager
def stopping_on_signals() -> Iterator[Event]:
    """Yield an event that is set when a signal requests the end, so that it ends between two micro-batches. A second
    signal kills the process.
    """
    stopping = Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
