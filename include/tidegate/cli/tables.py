"""Tables that fit their output. On a terminal, columns are left out until the others fit, and no letter is cut off.

Other output is complete: each row is one line of any length, for other programs.
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

#: The width that a column with breakable texts needs, and the longest word that is not broken.
_NARROWEST, _LONGEST_WORD = 14, 24
#: A wider column counts as text.
_LONG = 40


class Table(RichTable):
    """Rich's table, with the `Column`s by name.

    `leave` are the columns that may be left out, the first of them first; by default all but the first column, from the
    right. The texts of `wrap`, and long ones except those of `whole`, may be broken into lines without losing anything.
    """

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
        """Return the table with the columns that fit, and the names of the others. Empty columns are not named."""
        shown, gone = self._with(self.columns), list[str]()
        empty = [column for column in self.columns[1:] if not any(map(str, column.cells))]
        if len(self.rows):
            shown = self._with([column for column in self.columns if column not in empty])
        for name in self._order():
            if shown._width(console, options) <= options.max_width:
                break
            left = [each for each in shown.columns if str(each.header) != name]
            if 0 < len(left) < len(shown.columns):
                shown, gone = self._with(left), [*gone, name]
        shown._fix_widths(console, options)
        return shown, [str(column.header) for column in self.columns if str(column.header) in gone]

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
        """Return the width of a column's longest text. A heading that need not be `whole` may be broken between its
        words.
        """
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
        """Return the least width of the table: the full width of each column, or less where texts may be broken."""
        content = sum(self._least(console, options, column, whole, longest_word) for column in self.columns)
        return content + 3 * len(self.columns) + 1  # the frame

    def _least(self, console: Console, options: ConsoleOptions, column: Column, whole: bool, longest_word: int) -> int:
        width = self._natural(console, options, column, whole)
        if not self._may_break(column, width):
            return width
        words = [Measurement.get(console, options, cell).minimum for cell in (column.header, *column.cells)]
        return min(width, max(_NARROWEST, min(max(words), longest_word)))

    def _fix_widths(self, console: Console, options: ConsoleOptions) -> None:
        """Fix the widths. Only texts that may be broken are narrowed, within words if need be, unless that is not
        enough.
        """
        if self._width(console, options, longest_word=0) > options.max_width:
            return
        whole = self._width(console, options, whole=True) <= options.max_width
        for column in self.columns:
            width = self._natural(console, options, column, whole)
            column.width = None if self._may_break(column, width) else width

    def _lines(self, console: Console) -> Iterator[str]:
        """Yield one line for each row, however many lines its texts have."""
        if self.title:
            yield f"{self.title}:"
        texts = [[_one_line(console, cell) for cell in (column.header, *column.cells)] for column in self.columns]
        widths = [max(map(cell_len, column)) for column in texts]
        for row in zip(*texts, strict=True):
            padded = [text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)]
            yield "  ".join(padded).rstrip()


def _one_line(console: Console, cell: object) -> str:
    text = console.render_str(cell) if isinstance(cell, str) else cell
    return "; ".join(filter(None, map(str.strip, plain(f"{text}").splitlines())))


class Pairs:
    """The properties of a thing: a line for each, with its name and value. Empty ones are left out."""

    def __init__(self, rows: Sequence[tuple[str, str | None]]) -> None:
        self._rows = [(name, plain(value)) for name, value in rows if value]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.is_terminal:
            grid = RichTable.grid(padding=(0, 2, 0, 0))
            grid.add_column(style="dim")
            grid.add_column(overflow="fold")
            for name, value in self._rows:
                grid.add_row(name, Text(value))
            yield grid
        else:
            widest = max((len(name) for name, _ in self._rows), default=0)
            lines = [f"{name:{widest}}  {' '.join(value.splitlines())}" for name, value in self._rows]
            yield Text("\n".join(lines), no_wrap=True, overflow="ignore")
