"""Whether an error that a process meets may come of the trouble that there is."""

from typing import TYPE_CHECKING

from simulator.in_the_commit import LOST
from simulator.scheduler import require
from simulator.sinks import FULL
from simulator.topic_sources import TopicSource, loses_records
from simulator.topics import is_of_brokers
from tidegate.protocol.facts.errors import (
    CheckpointError,
    SinkError,
    SourceChangedError,
    SourceUnavailableError,
    StopIncompleteError,
)

if TYPE_CHECKING:
    from simulator.world import World


def require_harmless(world: "World", error: CheckpointError) -> None:
    """Raises `Violation`."""
    cause = error.__cause__ if isinstance(error, StopIncompleteError) else error
    match cause:
        case SinkError():
            harmless = str(cause) in (FULL, LOST) or is_of_brokers(cause)
            require(harmless, f"a sink has lost or found what it should not: {cause}")
        case SourceUnavailableError():
            reads_topics = any(isinstance(each, TopicSource) for each in world.sources.values())
            require(reads_topics, f"a source that is always there is away: {cause}")
        case SourceChangedError():
            require(world.corrections.drawn or loses_records(world), f"nothing has changed in any source: {cause}")
