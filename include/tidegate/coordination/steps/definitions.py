"""Compare the definition that is about to run with the one of the newest checkpoint, as recorded in its `_metadata`.

Only a changed definition must be checked before it does any work.
"""

import json
from collections.abc import Sequence

from tidegate.coordination.context import DefinedContext
from tidegate.pipeline.fingerprint import fingerprint
from tidegate.protocol.facts.errors import PipelineDefinitionError, StateIntegrityError


class Definitions:
    """The definitions of one pipeline."""

    def __init__(self, context: DefinedContext) -> None:
        self._context = context

    def has_changed(self) -> bool:
        """Whether the definition differs from the recorded one. True also if there is no completed checkpoint, or its
        `_metadata` does not show it: it was not written by a run of the pipeline, or was deleted meanwhile. Raises
        `StoreUnavailableError`, `StorageError`."""
        with self._context.store.transaction(self._context.graph.pipeline.name) as tx:
            latest = tx.latest_completed()
        if latest is None or latest.metadata_path is None:
            return True
        try:
            document = json.loads(self._context.storage.read(latest.metadata_path))
        except (StateIntegrityError, ValueError):
            return True
        return not isinstance(document, dict) or document.get("definition") != fingerprint(self._context.graph)


def refused_definition(pipeline_id: str, problems: Sequence[str]) -> PipelineDefinitionError:
    """Return the error for the problems of a definition that has not done any work."""
    return PipelineDefinitionError(
        f"{' '.join(problems)} The definition of pipeline {pipeline_id} was checked because it is not the one of its "
        "newest completed checkpoint. Nothing was read, and committed data is untouched. `tidegate check` reports the "
        "same without a run: correct the definition, and run it again."
    )
