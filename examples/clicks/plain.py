"""The expected content of the tables and topics of `web`, computed in plain Python without Tidegate."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from clicks.traffic import PAGES, Click


def by_minute(made: Iterable[Click]) -> "Counter[tuple[str, datetime]]":
    """Count clicks by page and the beginning of the minute in UTC."""
    return Counter((click.page, click.at.replace(second=0, microsecond=0, tzinfo=None)) for click in made)


def by_campaign(made: Iterable[Click]) -> "Counter[str]":
    return Counter(PAGES[click.page] for click in made)


def joined(made: Iterable[Click]) -> list[tuple[int, str, int, str]]:
    """Return each click with its campaign, by id."""
    return sorted((click.id, click.page, click.visitor, PAGES[click.page]) for click in made)
