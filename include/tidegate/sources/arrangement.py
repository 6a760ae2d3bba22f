"""Brings the records of a file into the columns of the schema, as its header requires."""

from typing import TYPE_CHECKING, Protocol

from tidegate.protocol.facts.errors import MalformedRowsError
from tidegate.sources.allowed import Aliases, Allowed
from tidegate.sources.headers import Layout, Mismatch, arranged, expected_names, header_fields, layout_of
from tidegate.sources.quotes import Rules
from tidegate.sources.read_errors import AS_BEFORE

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 300  # characters of a header in an error


class Columns(Protocol):
    """The options by which the columns of a file are found."""

    @property
    def header(self) -> tuple[str, ...] | None: ...
    @property
    def rules(self) -> Rules: ...
    @property
    def strip_header(self) -> bool: ...
    @property
    def quarantine(self) -> bool: ...
    @property
    def allowed(self) -> Allowed: ...
    @property
    def aliases(self) -> Aliases: ...
    @property
    def columns(self) -> int: ...


class Arrangement:
    """The arrangement of one file, whose name is shown in errors."""

    def __init__(self, columns: Columns, name: str) -> None:
        self._columns = columns
        self._name = name
        self.awaits_header = columns.header is not None
        self.width = columns.columns  # fields of a record
        self._layout: Layout | None = None
        self._problem: str | None = None

    def take_header(self, record: bytes) -> None:
        """Take the header. Raise `MalformedRowsError` if its columns are not those of the schema. With a quarantine,
        all records below it go there instead."""
        self.awaits_header = False
        columns, expected = self._columns, self._columns.header or ()
        found = header_fields(record, columns.rules, columns.strip_header)
        layout = layout_of(found, expected, columns.allowed, columns.aliases)
        if not isinstance(layout, Mismatch):
            self._layout, self.width = layout, len(found)
            return
        if not columns.quarantine:
            raise MalformedRowsError(
                f"The columns of {self._name} are not those of the source's schema: {layout.what}. The header has "
                f"{len(found)} columns: {expected_names(found, expected, columns.aliases)[:_SHOWN]}; the schema has "
                f"{len(expected)}: "
                f"{', '.join(expected)[:_SHOWN]}. A ? is a name that the schema does not have. {AS_BEFORE}Correct the "
                f"file or the schema. {layout.way_out}Then run again."
            )
        self._problem = f"the header does not fit the schema: {layout.what}; it is {record.decode()[:_SHOWN]}"

    def of(
        self, records: "pa.StringArray", texts: "pa.StringArray", problems: "pa.StringArray"
    ) -> "tuple[pa.StringArray, pa.StringArray]":
        """Return the text of each record for Spark to parse, null if it is the record itself; and its problem, if
        any."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._problem is not None:
            return texts, pc.coalesce(problems, pa.scalar(self._problem, pa.string()))
        if self._layout is None:
            return texts, problems
        fit = arranged(records, self._layout, self._columns.rules)
        wrong = pa.scalar(f"not a row of {self._layout.width} fields", pa.string())
        return fit, pc.if_else(pc.is_null(fit), pc.coalesce(problems, wrong), problems)
