"""The progress of a checkpoint: a moving bar on a terminal, and otherwise a plain line for each step."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class Shown(Protocol):
    """The display of a checkpoint's progress, or of the work before one is triggered."""

    def step(self, name: str, acknowledged: int | None = None) -> None:
        """Show that a step has begun. `acknowledged` is the number of subtasks that have; None leaves it as it is."""

    def advance(self, acknowledged: int) -> None:
        """Show that this many more subtasks have acknowledged."""


@contextmanager
def shown_on(console: Console, what: str, subtasks: int | None = None) -> Iterator[Shown]:
    """Show the progress of `what`, such as `checkpoint 5`. On a terminal nothing of it remains at the end."""
    if not console.is_terminal:
        yield _Lines(console, what)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bar(progress, progress.add_task("", total=subtasks), what)


class _Bar:
    def __init__(self, progress: Progress, task: TaskID, what: str) -> None:
        self._progress, self._task, self._what = progress, task, what

    def step(self, name: str, acknowledged: int | None = None) -> None:
        self._progress.update(self._task, description=f"{self._what}: {name}", completed=acknowledged)

    def advance(self, acknowledged: int) -> None:
        self._progress.advance(self._task, acknowledged)


class _Lines:
    def __init__(self, console: Console, what: str) -> None:
        self._console, self._what = console, what[0].upper() + what[1:]
        self._last = ""

    def step(self, name: str, acknowledged: int | None = None) -> None:
        if name != self._last:
            self._console.print(f"{self._what}: {name}", markup=False, highlight=False)
            self._last = name

    def advance(self, acknowledged: int) -> None:
        """Print nothing: too many lines would hide the steps."""
