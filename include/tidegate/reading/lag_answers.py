"""How far a pipeline is behind its sources, as pages, API and commands say it."""

from collections.abc import Mapping

from tidegate.reading.answer import Document, Moment


class Lag(Document):
    """What polls have found and not read yet, in what the sources count in. `bytes` is -1 if that is not known.
    `polled_at` is when it was so; of several splits the earliest."""

    pending: int
    unit: str
    bytes: int
    polled_at: Moment


class LagOfSource(Lag):
    """Of one source; `parts` is how much of each part that it has by name, such as the partitions of a topic."""

    parts: Mapping[str, int] = {}


class PartLag(Document):
    """How far a pipeline is behind in one part of a source, such as a partition of a topic."""

    source: str
    part: str
    pending: int
    unit: str
