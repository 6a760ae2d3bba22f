"""The contracts between the coordinator and the world: the duties of each adapter, and its optional abilities.

An adapter makes no decision about safety: `tidegate.protocol` does, from the facts an adapter reports. Types of Spark
and Arrow are imported for type checkers alone, so that importing this costs nothing at DAG parse.
"""

from tidegate.ports.arrow_reading import ArrowReader, ArrowRows, ArrowSink, ArrowSource, LeftToSparkError, TypedSink
from tidegate.ports.commit_participants import CommitStatements, CommittingSink, Participant, StatementError
from tidegate.ports.declared_schemas import Schema
from tidegate.ports.event_queue import EventQueue
from tidegate.ports.grouped_sinks import GroupedSink, RewindableGroupedSink
from tidegate.ports.notifiers import Meter, Notifier
from tidegate.ports.regions import (
    Acknowledger,
    CheckpointListener,
    ContinuousRegion,
    Declined,
    Editor,
    Exporter,
    Region,
    Round,
    Validator,
)
from tidegate.ports.remote import RemoteEndpoint
from tidegate.ports.schemas import KeyReader, StateSchemas
from tidegate.ports.sink_abilities import (
    JournalingSink,
    KeyedSink,
    LingeringSink,
    NumberedSink,
    OwnedSink,
    PlacedSink,
    PortableSink,
    PositionedSink,
    ReadableAtSink,
    ReadableSink,
    ReferencingSink,
    RewindableSink,
    StagingSink,
    TableFiles,
    Withdrawn,
)
from tidegate.ports.sink_columns import DirectorySink, EvolvingSink, SelectingSink
from tidegate.ports.sinks import (
    CommitAttempt,
    DeliveryGuarantee,
    Sink,
    SinkCommit,
    SinkInput,
    SinkWriter,
    StageContext,
)
from tidegate.ports.source_abilities import (
    BacklogSource,
    CheckedSource,
    DiscoveringSource,
    LaggingSource,
    ListingSource,
    PieceVersion,
    QuarantiningSource,
    ReadPiece,
    ReadSince,
    ReplaceableSource,
    RereadingSource,
    Skipped,
    SkippingSource,
)
from tidegate.ports.sources import Segment, Source, SourceContext
from tidegate.ports.storage import CheckpointStorage, ReadableStorage
from tidegate.ports.store import CheckpointStore, Clock, Prefetch
from tidegate.ports.transaction import StoreTransaction
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.records import HandleKind, Pending, Snapshot, StateHandle

__all__ = [
    "Acknowledger",
    "ArrowReader",
    "ArrowRows",
    "ArrowSink",
    "ArrowSource",
    "BacklogSource",
    "CheckedSource",
    "Branch",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointStore",
    "Clock",
    "CommitAttempt",
    "CommitStatements",
    "CommittingSink",
    "ContinuousRegion",
    "Declined",
    "DeliveryGuarantee",
    "DirectorySink",
    "DiscoveringSource",
    "Editor",
    "EventQueue",
    "Exporter",
    "GroupedSink",
    "HandleKind",
    "KeyReader",
    "EvolvingSink",
    "SelectingSink",
    "JournalingSink",
    "KeyedSink",
    "LaggingSource",
    "LeftToSparkError",
    "LingeringSink",
    "ListingSource",
    "Prefetch",
    "Meter",
    "Notifier",
    "NumberedSink",
    "OwnedSink",
    "Participant",
    "Pending",
    "PieceVersion",
    "PlacedSink",
    "PortableSink",
    "PositionedSink",
    "QuarantiningSource",
    "ReadPiece",
    "ReadSince",
    "ReplaceableSource",
    "ReadableAtSink",
    "ReadableSink",
    "ReadableStorage",
    "ReferencingSink",
    "Region",
    "RemoteEndpoint",
    "RereadingSource",
    "RewindableGroupedSink",
    "RewindableSink",
    "Round",
    "Schema",
    "Segment",
    "Sink",
    "SinkCommit",
    "SinkInput",
    "SinkWriter",
    "Snapshot",
    "Source",
    "SourceContext",
    "StageContext",
    "Skipped",
    "SkippingSource",
    "StagingSink",
    "StateHandle",
    "StatementError",
    "StateSchemas",
    "StoreTransaction",
    "TableFiles",
    "TypedSink",
    "Validator",
    "Withdrawn",
]
