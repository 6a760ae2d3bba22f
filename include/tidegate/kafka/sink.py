"""`KafkaSink`: a topic that gets the rows of each checkpoint in one transaction, after the checkpoint."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from tidegate.kafka import markers
from tidegate.kafka.clients import require_client
from tidegate.kafka.connections import DEFAULT, Brokers, brokers_of
from tidegate.kafka.formats import FORMATS, Format
from tidegate.kafka.markers import TOPIC, Marker, Slot
from tidegate.kafka.sink_refusals import Refusals, forward, outside
from tidegate.kafka.topics import OnTopic
from tidegate.kafka.transactions import Produced, Work, carry_out, take_slot
from tidegate.ports import CommitAttempt, SinkInput, StageContext, StateHandle
from tidegate.postgres_sink.names import DELETE
from tidegate.protocol.facts.errors import (
    ConfigurationError,
    MalformedRowsError,
    PipelineDefinitionError,
    RowsRefusedError,
    SinkUnavailableError,
)
from tidegate.protocol.recovery.ownership import Owner
from tidegate.protocol.steps.sink_marks import gone_first
from tidegate.sinks.staged_parquet import StagedParquet, StagedParquetWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.kafka.avro_schemas import AvroSchema

    Members = Sequence[tuple["KafkaSink", Sequence[StateHandle]]]

_BYTES = ("binary", "large_binary", "string", "large_string")
_INPUTS = {"append": SinkInput.CHANGES, "upsert": SinkInput.UPSERTS}
#: The headers with the checkpoint and the pipeline of a record.
CHECKPOINT, PIPELINE = "tidegate-checkpoint", "tidegate-pipeline"


@dataclass(frozen=True)
class KafkaSink(OnTopic, StagedParquet):
    """A topic of Kafka. The rows of a checkpoint are written after it, in one transaction with those of all other
    topics of the pipeline on the same connection. Consumers with `isolation.level=read_committed` see a checkpoint
    as a whole, and once.

    Written records cannot be taken back, so a restore needs `--leave`. The topic must exist.

    Args:
        topic: The topic.
        connection: The name of a connection to its brokers, in Airflow or the environment.
        key: The column or columns that make the key of a record. A single column of text, bytes or whole numbers is
            used as it is, and null is no key; anything else becomes a JSON object. With `"upsert"` behind an operator
            that keeps state, these are the operator's key columns, as renamed by transforms.
        format: `"json"`: the value is an object of the row's columns. `"avro"`: it is a record of these. `"bytes"`: it
            is the only column apart from the key, the time and the headers.
        mode: `"append"`: each checkpoint adds rows. `"upsert"`: each checkpoint adds the rows of its keys, and a record
            without value for each key that the state of the operator before it no longer has. Behind anything but
            state, a row whose column `_delete` is true becomes such a record.
        timestamp: The column with the time of a record. By default, the time at which the record is written.
        headers: The column with more headers of a record, as `ARRAY<STRUCT<key: STRING, value: BINARY>>`. It is not
            part of the value.
        checkpoint_headers: Whether records have the headers `tidegate-checkpoint` and `tidegate-pipeline`.
        markers: The compacted topic on which sinks record their commits. It is made if it does not exist.
        avro: The schema of Avro values. Without it and `schemas`, one in which each column may be null.
        schemas: Schemas by their ids. Values begin with the largest id, in the framing of schema registries.

    Raises:
        PipelineDefinitionError: If an option is wrong.

    Example:
        ```python
        from tidegate import FileSource, KafkaSink, Pipeline, sum_

        orders = Pipeline("shop").source("orders", FileSource("landing", schema="customer STRING, cents BIGINT"))
        orders.sink("orders", KafkaSink("orders", key="customer"))
        totals = orders.key_by("customer").aggregate("totals", cents=sum_("cents"))
        totals.sink("totals", KafkaSink("totals", mode="upsert", key="customer"))
        ```
    """

    topic: str
    connection: str = DEFAULT
    key: str | Sequence[str] | None = None
    format: Literal["json", "avro", "bytes"] = "json"
    mode: Literal["append", "upsert"] = "append"
    timestamp: str | None = None
    headers: str | None = None
    checkpoint_headers: bool = True
    markers: str = TOPIC
    avro: "AvroSchema | None" = None
    schemas: "Mapping[int, AvroSchema]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.topic or self.topic == self.markers:
            self._refuse("it needs the name of a topic, which is not that of the markers")
        if self.mode not in _INPUTS:
            self._refuse(f'the mode is {self.mode!r}, but must be "append" or "upsert"')
        if self.format not in FORMATS:
            self._refuse(f'the format is {self.format!r}, but must be "json", "avro" or "bytes"')
        if self.format != "avro" and (self.avro is not None or self.schemas):
            self._refuse('avro= and schemas= are for format="avro"')
        if self.mode == "upsert" and not self._key:
            self._refuse('mode="upsert" needs key=, the columns that identify a row')

    def _refuse(self, why: str) -> NoReturn:
        raise PipelineDefinitionError(f"KafkaSink({self.topic!r}): {why}.")

    @property
    def _key(self) -> tuple[str, ...]:
        return (self.key,) if isinstance(self.key, str) else tuple(self.key or ())

    @property
    def _format(self) -> Format:
        return Format(self.format, avro=self.avro, schemas=self.schemas)

    @property
    def keys(self) -> tuple[str, ...]:
        """See `ports.KeyedSink`."""
        return self._key if self.mode == "upsert" else ()

    @property
    def input(self) -> SinkInput:
        return _INPUTS[self.mode]

    def describe(self) -> dict[str, Any]:
        """See `ports.Sink`. Its own headers and the topic of markers are left out."""
        description: dict[str, Any] = {"type": "KafkaSink", "path": f"kafka://{self.connection}/{self.topic}"}
        description |= {"mode": self.mode, "format": self.format}
        columns = {"key": list(self._key), "timestamp": self.timestamp, "headers": self.headers}
        description |= {name: given for name, given in columns.items() if given}
        return description | (self._format.described() if self.avro is not None or self.schemas else {})

    def unstorable(self, columns: "pa.Schema") -> list[str]:
        """See `ports.TypedSink`. Also checks the topic, if its brokers can be reached."""
        from tidegate.kafka.records import unwritable

        found = [*super().unstorable(columns), *unwritable(columns, self._key, self.timestamp, self.headers)]
        value = self._value(columns.names)
        if self.format == "bytes" and (len(value) != 1 or str(columns.field(value[0]).type) not in _BYTES):
            found.append(
                'format="bytes" takes rows with one column of bytes or text besides the key, the timestamp and the '
                f"headers, and these have {', '.join(value) or 'none'}"
            )
        if self.format == "avro":
            found += self._format.unwritable([columns.field(name) for name in value])
        if found:
            return found
        try:
            there = markers.topic_id(self._brokers(), self.topic, self._outside()) is not None
            problem = markers.problem_of(self._brokers(), self.markers, self._outside())
        except (SinkUnavailableError, ConfigurationError):  # the first run finds out, before anything is visible
            return []
        missing = [] if there else [f"there is no topic {self.topic!r} at connection {self.connection!r}: make it"]
        return [*missing, *([problem] if problem else [])]

    def writer(self) -> StagedParquetWriter:
        """See `ports.Sink`. Raise `NotInstalledError` before rows are staged that could not be written."""
        require_client()
        return self.writer_at(self.root)

    def writer_at(self, url: str) -> "KeyedWriter":
        """See `ports.PortableSink`."""
        return KeyedWriter(url, self.input is not SinkInput.CHANGES, self.keys if len(self.keys) == 1 else ())

    # -- after the commit

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """See `ports.Sink`. Raise `SinkError`, `SupersededAttemptError`."""
        self.commit_group(checkpoint_id, [(self, staged)], attempt)

    @property
    def group(self) -> str:
        """See `ports.GroupedSink`: the topics of a connection."""
        return f"kafka:{self.connection}:{self.markers}"

    def commit_group(self, checkpoint_id: int, members: "Members", attempt: CommitAttempt) -> None:
        """See `ports.GroupedSink`."""
        works = [sink._work(checkpoint_id, staged) for sink, staged in members]
        if any(work.rows or sink.keys for work, (sink, _) in zip(works, members, strict=True)):
            refusals = forward(self.connection, [sink.topic for sink, _ in members], checkpoint_id)
            carry_out(self._brokers(), self.markers, works, checkpoint_id, attempt, refusals)

    def _work(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Work:
        rows = sum(handle.rows for handle in staged)
        return Work(self._slot, rows, partial(self._records, checkpoint_id, staged))

    def _records(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> Iterator[Produced]:
        from tidegate.kafka.records import Records

        own = ((CHECKPOINT, str(checkpoint_id)), (PIPELINE, self._slot.pipeline)) if self.checkpoint_headers else ()
        headers = tuple((name, value.encode()) for name, value in own)
        format_, key = self._format, self._key
        for batch in self.batches(gone_first(staged)):
            value = self._value(batch.schema.names)
            try:
                yield from Records(format_, value, key, self.timestamp, self.headers, headers).of(batch)
            except MalformedRowsError as error:
                raise forward(self.connection, [self.topic], checkpoint_id).unfit(error.__cause__ or error) from error

    def _value(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of the value. Values of bytes have no place for others."""
        apart = {DELETE, self.headers, *((*self._key, self.timestamp) if self.format == "bytes" else ())}
        return tuple(name for name in names if name not in apart)

    # -- ownership and markers

    @property
    def _slot(self) -> Slot:
        _, pipeline, sink = (self._place or self.root).rsplit("/", 2)
        return Slot(pipeline, sink, self.topic)

    def numbers(self) -> tuple[int, int]:
        """See `ports.NumberedSink`."""
        marker = self._marker()
        return (0, 0) if marker is None else (marker.checkpoint_id, marker.attempt)

    def owner(self) -> Owner | None:
        """See `ports.OwnedSink`. A topic may have any number of writers. The owner is that of the marker, which records
        the checkpoints of this sink: a pipeline of the same name in another database counts its checkpoints anew."""
        marker = self._marker()
        return None if marker is None else marker.owner

    def mark(self, owner: Owner) -> Owner:
        return take_slot(self._brokers(), self.markers, self._slot, owner, False, self._outside())

    def mark_anew(self, owner: Owner) -> None:
        take_slot(self._brokers(), self.markers, self._slot, owner, True, self._outside())

    def shown_checkpoint(self) -> int | None:
        """See `ports.PositionedSink`. A topic that was made anew has none of the records of the former one."""
        marker = self._marker()
        if marker is None or markers.topic_id(self._brokers(), self.topic, self._outside()) != marker.topic_id:
            return None
        return marker.checkpoint_id

    def is_used(self) -> bool:
        """Whether this sink has written records. Those of other writers do not count, because they stay."""
        return self.numbers()[0] > 0

    def _marker(self) -> Marker | None:
        return markers.read(self._brokers(), self.markers, self._outside()).of(self._slot)

    def _brokers(self) -> Brokers:
        return brokers_of(self.connection)

    def _outside(self) -> Refusals:
        return outside(self.connection, self.topic)


@dataclass(frozen=True)
class KeyedWriter(StagedParquetWriter):
    """Refuses nulls in the columns `never_null` before anything is visible: their records would have no key."""

    never_null: tuple[str, ...]

    def stage(self, rows: "pa.Table", context: StageContext) -> list[StateHandle]:
        """See `ports.SinkWriter`. Raise `RowsRefusedError`, `StorageError`, `SinkError`."""
        for name in self.never_null:
            if rows.column(name).null_count:
                raise RowsRefusedError(
                    f"Rows of checkpoint {context.checkpoint_id} have null in the column {name!r}, which is the key of "
                    "their records: the rows of no key would never be replaced or removed. Nothing became visible. "
                    "Leave them out by a transform, or put a value there, then run again."
                )
        return super().stage(rows, context)
