"""The errors of a topic that is read: its brokers refuse a request or are unreachable, or records are lost."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.protocol.facts.errors import (
    CheckpointError,
    ConfigurationError,
    PipelineDefinitionError,
    SourceChangedError,
    SourceUnavailableError,
)
from tidegate.sources.read_errors import AS_BEFORE

NO_TOPIC = {"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"}
_NO_LEADER = {"LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"}
_NO_RIGHT = {"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that is read, and the connection to its brokers."""

    name: str
    connection: str

    def __str__(self) -> str:
        return f"Topic {self.name!r} of connection {self.connection!r}"

    def wrong(self, why: str) -> PipelineDefinitionError:
        return PipelineDefinitionError(f"KafkaSource({self.name!r}): {why}.")

    # -- missing topics and offsets

    def no_topic(self) -> PipelineDefinitionError:
        return self.wrong(
            f"there is no such topic at connection {self.connection!r}, or the user of the connection may not see it. "
            "Nothing was read. Make the topic, or grant that user to describe and read it"
        )

    def gone(self) -> SourceChangedError:
        return SourceChangedError(
            f"{self} was read and is not there any more. {AS_BEFORE}If it was deleted, give the source another name, "
            "and it begins anew when the topic is there."
        )

    def no_such_start(self, partition: int, offset: int, first: int, end: int) -> PipelineDefinitionError:
        return self.wrong(
            f"start= begins partition {partition} with offset {offset}, but the partition has {_extent(first, end)}. "
            "Nothing was read. Name an offset that is there"
        )

    def no_such_partitions(self, partitions: Sequence[int]) -> PipelineDefinitionError:
        return self.wrong(f"start= names {_partitions(partitions)}, which the topic does not have. Nothing was read")

    def without_offset(self, partitions: Sequence[int]) -> PipelineDefinitionError:
        return self.wrong(
            f"start= has no offset for {_partitions(partitions)}. Nothing was read. Name an offset for each partition "
            "that is there"
        )

    # -- lost records

    def lost(self, partition: int, offset: int, first: int) -> SourceChangedError:
        return SourceChangedError(
            f"{self} has lost the offsets {offset} to {first - 1} of partition {partition}, which were not read: its "
            f"retention has deleted them. The first that is left is {first}. {AS_BEFORE}Keep records until they are "
            "read: retention.ms and retention.bytes of the topic set how long. To go on without these records, run "
            "`tidegate source skip`."
        )

    def records(self, partition: int, offset: int, end: int) -> str:
        """Name records, for a plan, that a restore would read again and cannot."""
        return f"the offsets {offset} to {end - 1} of partition {partition} of topic {self.name}"

    def lost_meanwhile(self, partition: int, offset: int, end: int) -> SourceChangedError:
        return SourceChangedError(
            f"{self} has lost offsets of partition {partition}, between {offset} and {end - 1}, after this checkpoint "
            f"began to read them: its retention has deleted them, or it was made anew. {AS_BEFORE}To go on without "
            "the lost records, run `tidegate source skip`."
        )

    def made_anew(self) -> SourceChangedError:
        return SourceChangedError(
            f"{self} was deleted and made anew since it was read: it has another id. {AS_BEFORE}Its offsets are not "
            "those of this pipeline. To read the new topic from its start, run `tidegate source skip`."
        )

    def fewer(self, partitions: Sequence[int]) -> SourceChangedError:
        return SourceChangedError(
            f"{self} has no {_partitions(partitions)} any more, which a topic never loses: it was deleted and made "
            f"anew. {AS_BEFORE}To read the new topic from its start, run `tidegate source skip`."
        )

    def ends_before(self, partition: int, offset: int, end: int) -> SourceChangedError:
        return SourceChangedError(
            f"{self} ends at offset {end} in partition {partition}, but was read up to {offset}: the topic was made "
            f"anew, or its brokers have lost records. {AS_BEFORE}The offsets {end} to {offset - 1} are other records "
            "now, or none. To read the present records from the first one, run `tidegate source skip`."
        )

    # -- errors of the brokers

    def refused(self, code: str, why: str, is_refused: bool) -> CheckpointError:
        """Return the error for a code of the brokers. `why` is the most specific text, `is_refused` whether the brokers
        are reachable but refuse this client."""
        if code in NO_TOPIC:
            return self.gone()
        if code in _NO_RIGHT:
            return ConfigurationError(
                f"The user of connection {self.connection!r} may not read topic {self.name!r} ({code}). {AS_BEFORE}"
                "Grant it to read and describe the topic."
            )
        if is_refused:
            return ConfigurationError(
                f"The brokers of connection {self.connection!r} refuse it ({why}). {AS_BEFORE}Correct its user and "
                "password, and whether it uses TLS: security.protocol, sasl.* and ssl.*."
            )
        if code in _NO_LEADER:
            return self.leaderless(())
        return SourceUnavailableError(
            f"{self} cannot be read: its brokers do not answer ({why}). {AS_BEFORE}Check that they run and that their "
            "addresses are right, then repeat the step."
        )

    def leaderless(self, partitions: Sequence[int]) -> SourceUnavailableError:
        which = _partitions(partitions) if partitions else "a partition"
        return SourceUnavailableError(
            f"{self} cannot be read: no broker leads {which} at the moment. {AS_BEFORE}Repeat the step when the "
            "brokers have chosen one."
        )


def _partitions(partitions: Sequence[int]) -> str:
    listed = ", ".join(str(each) for each in partitions)
    return f"partition {listed}" if len(partitions) == 1 else f"partitions {listed}"


def _extent(first: int, end: int) -> str:
    return f"the offsets {first} to {end - 1}" if first < end else f"no records, and begins with {end}"
