"""What the tables and topics of `web` must hold, counted in Python, and without anything of ours."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from clicks.traffic import PAGES, Click


def by_minute(made: Iterable[Click]) -> "Counter[tuple[str, datetime]]":
    """By page, and the minute's beginning in UTC."""
    return Counter((click.page, click.at.replace(second=0, microsecond=0, tzinfo=None)) for click in made)


def by_campaign(made: Iterable[Click]) -> "Counter[str]":
    return Counter(PAGES[click.page] for click in made)


def joined(made: Iterable[Click]) -> list[tuple[int, str, int, str]]:
    """By id: the click, and its campaign."""
    return sorted((click.id, click.page, click.visitor, PAGES[click.page]) for click in made)
