"""How far a checkpoint is: a bar that moves on a terminal, and a plain line for each step everywhere else."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class Shown(Protocol):
    """Is told what is done for a checkpoint, or before one is triggered."""

    def step(self, name: str, acknowledged: int | None = None) -> None:
        """A step has begun, with so many subtasks acknowledged; None if that is as it was."""

    def advance(self, acknowledged: int) -> None:
        """So many more subtasks have acknowledged."""


@contextmanager
def shown_on(console: Console, what: str, subtasks: int | None = None) -> Iterator[Shown]:
    """What shows `checkpoint 5`, with so many subtasks. On a terminal nothing of it is left in the end."""
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
        """Too many lines would say nothing."""
