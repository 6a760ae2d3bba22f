"""The distance between a pipeline and its sources, for pages, API and commands."""

from collections.abc import Mapping

from tidegate.reading.answer import Document, Moment


class Lag(Document):
    """Data that polls have found and not read yet, in the unit that the source counts in.

    `bytes` is -1 if unknown. `polled_at` is the time of the poll; of several splits, the earliest.
    """

    pending: int
    unit: str
    bytes: int
    polled_at: Moment


class LagOfSource(Lag):
    """The lag of one source; `parts` has the lag of each part that has a name, such as the partitions of a topic."""

    parts: Mapping[str, int] = {}


class PartLag(Document):
    """The lag of one part of a source, such as a partition of a topic."""

    source: str
    part: str
    pending: int
    unit: str
