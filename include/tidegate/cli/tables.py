"""Tables that fit where they are shown: on a terminal columns leave until the others fit, and no letter is cut off.

Anywhere else nothing leaves: a row is a line, as long as it is, for other programs.
"""

from collections.abc import Iterator, Sequence
from copy import copy

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from tidegate.cli.console import plain

#: Characters that a column needs whose texts may be broken into lines, and the longest word that need not be broken.
_NARROWEST, _LONGEST_WORD = 14, 24
#: A column that is wider is one of texts.
_LONG = 40


class Table(RichTable):
    """Rich's, with the `Column`s by name. `leave` are the columns that may leave, the first of them first; by default
    all but the first column, from the right. The texts of `wrap`, and long ones but those of `whole`, may be broken
    into lines, and lose nothing by it."""

    def __init__(
        self, *names: str, title: str | None = None, leave: Sequence[str] | None = None, wrap: Sequence[str] = (),
        whole: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(*names, title=title, title_justify="left", title_style="bold")
        self._leave = leave
        self._wrap, self._whole = wrap, whole

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not console.is_terminal:
            yield Text("\n".join(self._lines(console)), no_wrap=True, overflow="ignore")
            return
        shown, gone = self._fitting(console, options)
        yield from RichTable.__rich_console__(shown, console, options)
        if gone:
            yield Text(f"Not shown in {options.max_width} columns: {', '.join(gone)}.", style="dim")

    def _fitting(self, console: Console, options: ConsoleOptions) -> tuple["Table", list[str]]:
        """The table with the columns that fit, and the names of the others. An empty column is nothing to name."""
        shown, gone = self._with(self.columns), list[str]()
        empty = [each for each in self.columns[1:] if not any(map(str, each.cells))]
        if len(self.rows):
            shown = self._with([each for each in self.columns if each not in empty])
        for name in self._order():
            if shown._width(console, options) <= options.max_width:
                break
            left = [each for each in shown.columns if str(each.header) != name]
            if 0 < len(left) < len(shown.columns):
                shown, gone = self._with(left), [*gone, name]
        shown._fix_widths(console, options)
        return shown, [str(each.header) for each in self.columns if str(each.header) in gone]

    def _order(self) -> list[str]:
        if self._leave is not None:
            return list(self._leave)
        names = [str(column.header) for column in self.columns[1:]]
        return [name for name in reversed(names) if name not in self._wrap]

    def _with(self, columns: Sequence[Column]) -> "Table":
        made = copy(self)
        made.columns = [copy(column) for column in columns]
        for index, column in enumerate(made.columns):
            column._index, column.overflow = index, "fold"
        return made

    def _natural(self, console: Console, options: ConsoleOptions, column: Column, whole: bool = False) -> int:
        """A heading that need not be `whole` may be broken between its words."""
        wide = options.update(max_width=100_000)
        cells = [Measurement.get(console, wide, cell).maximum for cell in column.cells]
        heading = Measurement.get(console, wide, column.header)
        return max(heading.maximum if whole else heading.minimum, *cells, 0)

    def _may_break(self, column: Column, width: int) -> bool:
        name = str(column.header)
        return name in self._wrap or (width > _LONG and name not in self._whole)

    def _width(
        self, console: Console, options: ConsoleOptions, whole: bool = False, longest_word: int = _LONGEST_WORD
    ) -> int:
        """What it needs at least: all of each column, and of one whose texts may be broken some."""
        content = sum(self._least(console, options, column, whole, longest_word) for column in self.columns)
        return content + 3 * len(self.columns) + 1  # the frame

    def _least(self, console: Console, options: ConsoleOptions, column: Column, whole: bool, longest_word: int) -> int:
        width = self._natural(console, options, column, whole)
        if not self._may_break(column, width):
            return width
        words = [Measurement.get(console, options, cell).minimum for cell in (column.header, *column.cells)]
        return min(width, max(_NARROWEST, min(max(words), longest_word)))

    def _fix_widths(self, console: Console, options: ConsoleOptions) -> None:
        """Only texts that may be broken give way, within words if need be, unless that is not enough."""
        if self._width(console, options, longest_word=0) > options.max_width:
            return
        whole = self._width(console, options, whole=True) <= options.max_width
        for column in self.columns:
            width = self._natural(console, options, column, whole)
            column.width = None if self._may_break(column, width) else width

    def _lines(self, console: Console) -> Iterator[str]:
        """A line for each row, however many lines its texts have."""
        if self.title:
            yield f"{self.title}:"
        texts = [[_one_line(console, cell) for cell in (each.header, *each.cells)] for each in self.columns]
        widths = [max(map(cell_len, column)) for column in texts]
        for row in zip(*texts, strict=True):
            padded = [text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)]
            yield "  ".join(padded).rstrip()


def _one_line(console: Console, cell: object) -> str:
    text = console.render_str(cell) if isinstance(cell, str) else cell
    return "; ".join(filter(None, map(str.strip, plain(f"{text}").splitlines())))


class Pairs:
    """What a thing is, a line for each that there is: a name, and what is said."""

    def __init__(self, rows: Sequence[tuple[str, str | None]]) -> None:
        self._rows = [(name, plain(said)) for name, said in rows if said]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.is_terminal:
            grid = RichTable.grid(padding=(0, 2, 0, 0))
            grid.add_column(style="dim")
            grid.add_column(overflow="fold")
            for name, said in self._rows:
                grid.add_row(name, Text(said))
            yield grid
        else:
            widest = max((len(name) for name, _ in self._rows), default=0)
            lines = [f"{name:{widest}}  {' '.join(said.splitlines())}" for name, said in self._rows]
            yield Text("\n".join(lines), no_wrap=True, overflow="ignore")
