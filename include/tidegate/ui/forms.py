"""The parts of a form for a user action. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form. A `long` one has several lines, one with `choices` is a list. Empty fields are not sent."""

    name: str
    label: str
    longest: int
    value: str = ""
    long: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hidden:
    """A value that a form sends in addition."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Check:
    """A check box that must be set before a form can be sent. With `many` there may be others of the same name."""

    name: str
    label: str
    value: str = "true"
    many: bool = False


@dataclass(frozen=True, slots=True)
class Button:
    """A button. `path` is below the pipeline's address; `kind` is the kind of request, if the path has several."""

    label: str
    path: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """An action that a page offers.

    `summary` opens its form; without one it is only a button. Without buttons it only describes what to do elsewhere. A
    `final` one requires the right to delete. A `first` one waits for a user, and is open. `denied` is a DAG that the
    user would have to trigger but may not. If it `leads`, its progress has a page of its own.
    """

    key: str
    buttons: tuple[Button, ...]
    summary: str = ""
    sentence: str = ""
    fields: tuple[Field, ...] = ()
    final: bool = False
    first: bool = False
    hidden: tuple[Hidden, ...] = ()
    checks: tuple[Check, ...] = ()
    denied: str | None = None
    leads: bool = False
