"""The errors of a sink whose brokers refuse a request or do not answer: the state of the data, and the way out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.protocol.facts.errors import (
    CheckpointError,
    ConfigurationError,
    RowsRefusedError,
    SinkError,
    SinkUnavailableError,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from tidegate.kafka.clients import ClientErrors

#: Codes that mean that a later producer used the same transactional.id, or that the brokers ended the transaction.
FENCED = {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_PRODUCER_ID"}
_NO_RIGHT = {
    "TOPIC_AUTHORIZATION_FAILED": "write to the topic: WRITE and DESCRIBE on it, and on the topic of markers READ, too",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (
        "use a transactional.id: WRITE and DESCRIBE on transactional ids with the prefix tidegate-"
    ),
    "CLUSTER_AUTHORIZATION_FAILED": "write idempotently: IDEMPOTENT_WRITE on the cluster, with brokers before 2.8",
}
_TIMEOUT_TOO_LONG = "INVALID_TRANSACTION_TIMEOUT"
_TOO_LARGE = {"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"}


@dataclass(frozen=True, slots=True)
class Record:
    """A refused record: its topic, its key and its size."""

    topic: str
    key: bytes | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Refusals:
    """The errors of one occasion, on the brokers of one connection. `what` names the failed step, `safe` describes the
    state of the data, and `again` the step to repeat."""

    connection: str
    what: str
    safe: str
    again: str

    def of(self, error: "KafkaError", client_errors: "ClientErrors", record: Record | None = None) -> CheckpointError:
        """Return the error to raise for one of the client or the brokers."""
        code = error.name()
        if code in _TOO_LARGE and record is not None:
            return self._too_large(record)
        if code in _NO_RIGHT:
            return ConfigurationError(
                f"{self.what} ({code}): the user of connection {self.connection!r} may not {_NO_RIGHT[code]}. "
                f"{self.safe} Grant it that, then {self.again}."
            )
        if code == "UNKNOWN_TOPIC_OR_PART":
            return RowsRefusedError(
                f"{self.what}: the topic does not exist any more. {self.safe} Make it again, then {self.again}."
            )
        if code == _TIMEOUT_TOO_LONG:
            return ConfigurationError(
                f"{self.what}: its brokers allow no transaction as long as 15 minutes. {self.safe} Set "
                f"transaction.timeout.ms in connection {self.connection!r} to no more than their "
                f"transaction.max.timeout.ms, then {self.again}."
            )
        if code in ("INVALID_TIMESTAMP", "INVALID_RECORD"):
            return RowsRefusedError(
                f"{self.what} ({code}: {error.str()}). {self.safe} The topic takes no records with such timestamps or "
                "without keys, according to its message.timestamp.before.max.ms, message.timestamp.after.max.ms and "
                f"cleanup.policy. Change them, then {self.again}."
            )
        if client_errors.is_refused(error):
            return ConfigurationError(
                f"{self.what}: the brokers refuse connection {self.connection!r} ({client_errors.why(error)}). "
                f"{self.safe} Correct its user and password, and whether it uses TLS, then {self.again}."
            )
        return SinkUnavailableError(
            f"{self.what}: the brokers of connection {self.connection!r} did not answer as they should "
            f"({client_errors.why(error)}). {self.safe} Check that they run, then {self.again}."
        )

    def _too_large(self, record: Record) -> SinkError:
        key = "no key" if record.key is None else f"the key {record.key[:100].decode(errors='replace')!r}"
        return RowsRefusedError(
            f"{self.what}: topic {record.topic!r} does not take the record with {key}, which has {record.bytes} bytes. "
            f"{self.safe} Raise max.message.bytes of the topic, and message.max.bytes in connection "
            f"{self.connection!r}, which is 1000000 where it is not set; then {self.again}."
        )

    def unfit(self, why: BaseException) -> SinkError:
        return RowsRefusedError(
            f"{self.what}: a row does not fit the Avro schema: {why}. {self.safe} Correct the "
            f"schema, then {self.again}."
        )

    def no_topic(self, topic: str) -> SinkError:
        return RowsRefusedError(
            f"{self.what}: there is no topic {topic!r}, or the user of connection {self.connection!r} may not see it. "
            f"{self.safe} Make it, then {self.again}."
        )

    def took_too_long(self, seconds: float) -> SinkError:
        return SinkError(
            f"{self.what}: the brokers have ended the transaction, which was open for {seconds:.0f} s. {self.safe} "
            f"Raise transaction.timeout.ms in connection {self.connection!r}, and transaction.max.timeout.ms of the "
            f"brokers; then {self.again}."
        )

    # -- the topic of markers

    def unmarked(self, topic: str, error: "KafkaError", client_errors: "ClientErrors") -> CheckpointError:
        return self._about(topic).of(error, client_errors)

    def _about(self, topic: str) -> "Refusals":
        what = f"{self.what}: topic {topic!r} cannot be read"
        return Refusals(self.connection, what, self.safe, self.again)

    def unmarked_in_time(self, topic: str, client_errors: "ClientErrors") -> SinkError:
        return SinkUnavailableError(
            f"{self.what}: topic {topic!r} could not be read to its end in time. {self.safe} Check the brokers of "
            f"connection {self.connection!r}, then {self.again}."
        )

    def not_made(self, topic: str, error: "KafkaError", client_errors: "ClientErrors") -> CheckpointError:
        if error.name() in _NO_RIGHT:
            return ConfigurationError(
                f"{self.what}: topic {topic!r}, on which sinks record their commits, does not exist, and the user of "
                f"connection {self.connection!r} may not make it ({error.name()}). {self.safe} Let an administrator "
                "make it, with one partition and cleanup.policy=compact, or name another such topic by markers=; then "
                f"{self.again}."
            )
        return self.of(error, client_errors)

    def wrong_markers(self, problem: str) -> SinkError:
        return RowsRefusedError(f"{self.what}: {problem}. {self.safe} Then {self.again}.")

    def strange_marker(self, topic: str, offset: int) -> SinkError:
        return RowsRefusedError(
            f"{self.what}: the record at offset {offset} of topic {topic!r} was not written by Tidegate, which needs a "
            f"topic of its own for its markers. {self.safe} Name another topic by markers=, then {self.again}."
        )

    def lost_markers(self, topic: str, name: str) -> SinkError:
        return SinkError(
            f"{self.what}: topic {name!r} has no record of this sink any more, so it is unknown which checkpoints of "
            f"it topic {topic!r} has. {self.safe} If the checkpoint's rows are on the topic, as their header "
            f"tidegate-checkpoint shows, restore the records of {name!r} from a copy. If they are not, run the "
            "pipeline again: its sink begins anew there."
        )

    def held_back(self, topic: str) -> SinkError:
        return SinkUnavailableError(
            f"{self.what}: it is unknown whether an earlier attempt has committed them, because a transaction of "
            f"another producer is open on topic {topic!r}. {self.safe} It ends when its owner goes on, or by its "
            f"transaction.timeout.ms; then {self.again}."
        )


def forward(connection: str, topics: Sequence[str], checkpoint_id: int) -> Refusals:
    """Return the errors for the rows of a checkpoint."""
    named = " and ".join(repr(each) for each in topics)
    return Refusals(
        connection,
        f"The rows of checkpoint {checkpoint_id} cannot be written to topic{'s' if len(topics) > 1 else ''} {named}",
        "The checkpoint is complete, its rows are staged and safe, and readers of committed records see none of them.",
        "repeat the notify step, or run again",
    )


def outside(connection: str, topic: str) -> Refusals:
    """Return the errors for anything outside of a commit."""
    return Refusals(
        connection,
        f"The commits of the sink on topic {topic!r} cannot be read",
        "Rows that are staged are safe, and nothing was written to the topic.",
        "repeat the step",
    )


def not_compacted(topic: str, policy: str) -> str:
    return (
        f"topic {topic!r}, on which sinks record their commits, has cleanup.policy={policy}, so that it would lose "
        f"them. Set its cleanup.policy to compact, or name another topic by markers="
    )
