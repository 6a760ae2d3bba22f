"""The rows that a sink receives from a vertex, and the sinks that cannot follow it."""

from typing import TypeGuard

from tidegate.pipeline.streams import LATE_ROWS, Stream
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, Vertex
from tidegate.ports import KeyedSink, SinkInput
from tidegate.protocol.facts.errors import PipelineDefinitionError


def shows_state(origin: Vertex | None, sink: SinkVertex) -> TypeGuard[KeyedVertex]:
    """Return whether a sink has the rows of a vertex's state, with derived columns if transforms lie between the
    two."""
    return isinstance(origin, KeyedVertex) and not origin.emits and sink.sink.input is not SinkInput.CHANGES


def takes_upserts(origin: Vertex | None, sink: SinkVertex) -> TypeGuard[KeyedVertex]:
    """Return whether a sink receives the changes of a vertex's state."""
    return shows_state(origin, sink) and sink.sink.input is SinkInput.UPSERTS


def derives(sink: SinkVertex) -> bool:
    """Return whether a sink that shows state has other columns than the state."""
    return bool(sink.input.transforms) and sink.sink.input is not SinkInput.CHANGES


def check_input(where: str, sink: SinkVertex, origin: Vertex) -> None:
    """Raise `PipelineDefinitionError` if a sink cannot follow the vertex that it reads."""
    if isinstance(origin, KeyedVertex) and origin.table is not None and sink.sink.input is SinkInput.CHANGES:
        raise PipelineDefinitionError(
            f"The {where} appends, and rows of {origin.name!r} replace one another and are deleted: the table would "
            'keep every one of them for ever. Let the sink show current rows (mode="latest"), or apply changes by '
            'key (mode="upsert").'
        )
    if isinstance(origin, KeyedVertex) and origin.updates and sink.input.output != LATE_ROWS:
        _check_updated(where, sink, origin)
        return
    if sink.sink.input is SinkInput.CURRENT:
        _check_current(where, origin)
    if takes_upserts(origin, sink) and not derives(sink):
        _check_key(where, sink, origin)


def check_updates(where: str, origin: Vertex, stream: Stream) -> None:
    """Raise `PipelineDefinitionError` if an operator or step would receive a row again each time it is updated."""
    if isinstance(origin, KeyedVertex) and origin.table is not None and not origin.table.versions:
        raise PipelineDefinitionError(
            f"The {where} would receive a row of {origin.name!r} again each time it is updated, and no deletions. "
            "Only sinks can follow a table. Read the stream in front of it, or the table of its sink."
        )
    if isinstance(origin, KeyedVertex) and origin.updates and stream.output != LATE_ROWS:
        raise PipelineDefinitionError(f"The {where} would take a window several times. {_updating(origin)}")


def _check_updated(where: str, sink: SinkVertex, origin: KeyedVertex) -> None:
    if sink.sink.input is not SinkInput.UPSERTS:
        raise PipelineDefinitionError(
            f"The {where} {'appends' if sink.sink.input is SinkInput.CHANGES else 'shows the rows of the state'}. "
            f"{_updating(origin)}"
        )
    if origin.withdraws and sink.input.transforms:
        raise PipelineDefinitionError(
            f"The {where} follows the sessions of {origin.name!r} after a transform, and some of their rows have a "
            "true _delete: they take back a session that has become part of another one. Let the sink follow the "
            "operator directly."
        )
    if not sink.input.transforms:
        _check_key(where, sink, origin)


def _updating(origin: KeyedVertex) -> str:
    versions = "" if origin.withdraws else " add emit='versions', whose rows are numbered in window_version;"
    return (
        f"{origin.name!r} emits a window again when a row comes for it within its allowed_lateness, and that row takes "
        f"the place of the one before. Let a sink with mode='upsert' follow it, with the key "
        f"{', '.join(origin.state_key)};{versions} or leave allowed_lateness out."
    )


def _check_current(where: str, origin: Vertex) -> None:
    if not isinstance(origin, KeyedVertex):
        raise PipelineDefinitionError(
            f"The {where} keeps the current row of each key, so it must follow a keyed operator. Between the two there "
            "may be transforms that are row-wise, but no step. Put an operator in front of it, such as "
            "key_by(…).aggregate(…), or let the sink append."
        )
    if origin.emits:
        raise PipelineDefinitionError(
            f"The {where} keeps the current row of each key, but {origin.name!r} emits rows, of which none takes the "
            "place of another. Let the sink append, or put an operator between the two, such as "
            "key_by(…).aggregate(…)."
        )


def _check_key(where: str, sink: SinkVertex, origin: KeyedVertex) -> None:
    """A sink of an operator's rows can only find those again that it tells apart as the operator does."""
    if isinstance(sink.sink, KeyedSink) and set(sink.sink.keys) != set(origin.state_key):
        raise PipelineDefinitionError(
            f"The {where} has the key {', '.join(sink.sink.keys)}, but {origin.name!r} has one row for each "
            f"{', '.join(origin.state_key)}: rows would take each other's place. Give the sink that key, or put a step "
            'between the two, which is transform(…, deterministic=False, name="…"); then it is given changed rows '
            "alone, and none that leave the state."
        )
