"""What only a checkpoint's `_metadata` says: the options, and what sources, operators and sinks are.

It never changes, so it is read from checkpoint storage once and kept: the small part of it, for the newest that were
asked for.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from tidegate.ports import ReadableStorage
from tidegate.protocol.facts.errors import MetadataError, StateIntegrityError, StorageError
from tidegate.protocol.facts.paths import metadata_path
from tidegate.protocol.recovery.metadata import METADATA_FORMAT, METADATA_VERSION
from tidegate.protocol.recovery.stored_documents import read_document

_KEPT = 512


@dataclass(frozen=True, slots=True)
class Described:
    """`definitions` by operator id; `problem` says why nothing is known."""

    options: Mapping[str, Any]
    definitions: Mapping[str, Mapping[str, Any]]
    problem: str | None = None


class MetadataFiles:
    """Those on the checkpoint storage, which is opened when the first one is needed. Thread-safe."""

    def __init__(self, open_storage: Callable[[], ReadableStorage]) -> None:
        self._open_storage = open_storage
        self._known: OrderedDict[tuple[str, int], Described] = OrderedDict()
        self._lock = Lock()

    def content(self, pipeline_id: str, checkpoint_id: int) -> bytes:
        """The file as it is, if it is what it should be: a path that leads elsewhere gives nothing.

        Raises `StorageError`, `StateIntegrityError`, `MetadataError`.
        """
        path = metadata_path(pipeline_id, checkpoint_id)
        content = self._open_storage().read(path)
        document = read_document(path, content, METADATA_FORMAT, METADATA_VERSION)
        if (document.get("pipeline"), document.get("checkpoint_id")) != (pipeline_id, checkpoint_id):
            raise MetadataError(f"{path} is of another checkpoint: it was copied to here. It is not shown.")
        return content

    def described(self, pipeline_id: str, checkpoint_id: int) -> Described:
        """Raises nothing: a page has other things to show, too."""
        key = pipeline_id, checkpoint_id
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known
        try:
            described = _described(json.loads(self.content(pipeline_id, checkpoint_id)))
        except (StorageError, StateIntegrityError, MetadataError) as error:
            return Described({}, {}, str(error))
        with self._lock:
            self._known[key] = described
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return described


def _described(document: Mapping[str, Any]) -> Described:
    options = document.get("options")
    operators = document.get("operators")
    return Described(
        options if isinstance(options, dict) else {},
        {
            each["operator_id"]: each["definition"]
            for each in (operators if isinstance(operators, list) else [])
            if isinstance(each, dict)
            and isinstance(each.get("operator_id"), str)
            and isinstance(each.get("definition"), dict)
        },
    )
