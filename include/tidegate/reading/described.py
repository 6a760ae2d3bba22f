"""The content of a checkpoint's `_metadata`: the options, and the definitions of sources, operators and sinks.

The file never changes. It is read from checkpoint storage once, and a small part of it is cached for the checkpoints
that were requested last.
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
    """The options and definitions of one checkpoint. `definitions` is by operator id; `problem` is the reason if both
    are unknown.
    """

    options: Mapping[str, Any]
    definitions: Mapping[str, Mapping[str, Any]]
    problem: str | None = None


class MetadataFiles:
    """The metadata files on the checkpoint storage, which is opened when the first one is needed. Thread-safe."""

    def __init__(self, open_storage: Callable[[], ReadableStorage]) -> None:
        self._open_storage = open_storage
        self._known: OrderedDict[tuple[str, int], Described] = OrderedDict()
        self._lock = Lock()

    def content(self, pipeline_id: str, checkpoint_id: int) -> bytes:
        """Return the file unchanged, if it is the metadata of this checkpoint; a path that leads elsewhere yields
        nothing.

        Raises:
            StorageError: If it cannot be read.
            StateIntegrityError: If its content is damaged.
            MetadataError: If it is no metadata, or that of another checkpoint.
        """
        path = metadata_path(pipeline_id, checkpoint_id)
        content = self._open_storage().read(path)
        document = read_document(path, content, METADATA_FORMAT, METADATA_VERSION)
        if (document.get("pipeline"), document.get("checkpoint_id")) != (pipeline_id, checkpoint_id):
            raise MetadataError(f"{path} describes another checkpoint; it was copied here. It is not shown.")
        return content

    def described(self, pipeline_id: str, checkpoint_id: int) -> Described:
        """Return the options and definitions. An error becomes a `problem`, because a page has other parts to show."""
        key = pipeline_id, checkpoint_id
        with self._lock:
            if (cached := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return cached
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
            operator["operator_id"]: operator["definition"]
            for operator in (operators if isinstance(operators, list) else [])
            if isinstance(operator, dict)
            and isinstance(operator.get("operator_id"), str)
            and isinstance(operator.get("definition"), dict)
        },
    )
