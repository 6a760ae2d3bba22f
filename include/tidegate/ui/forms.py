"""What a form for a user action is made of. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """Of a form. One that is `long` has lines, one with `choices` is chosen. What is empty is not sent."""

    name: str
    label: str
    longest: int
    value: str = ""
    long: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hidden:
    """What a form sends besides."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Check:
    """What must be accepted before a form can be sent. With `many` there may be others of the same name."""

    name: str
    label: str
    value: str = "true"
    many: bool = False


@dataclass(frozen=True, slots=True)
class Button:
    """`path` is below the pipeline's address, `kind` what is asked for there, if there are several things."""

    label: str
    path: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """`summary` is what opens it; without one it is a button alone. Without buttons it only says what to do elsewhere.
    `final`: it takes the right to delete. `first`: it waits for somebody, and is open. `denied` is a DAG that the user
    would have to trigger, and may not. `leads`: what comes of it has a page of its own."""

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
