"""Write a savepoint that is made from another one, or from nothing, to a directory of its own.

The database is only read. The marker in the directory is written last. If the process dies before that, the files in
the directory are no savepoint.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.observing.audit import AuditEntry, Auditing
from tidegate.coordination.recovery.operator_state import find_kept
from tidegate.coordination.recovery.savepoint_directory import SavepointDirectory, write_documents
from tidegate.coordination.steps.identity import Identification
from tidegate.ports import CheckpointStorage, Editor, PortableSink, Validator
from tidegate.protocol.facts.errors import CheckpointError, ConfigurationError, SavepointEditError, StateIntegrityError
from tidegate.protocol.facts.paths import metadata_path
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.facts.savepoints import UNLABELLED, Label, require_legal_label
from tidegate.protocol.observing.actions import UserAction
from tidegate.protocol.recovery.canonical import MARKER, METADATA, PARTS, Complete
from tidegate.protocol.recovery.editing import (
    Base,
    begin_history,
    plan_edit,
    require_meets_expectations,
    rewritten,
    with_staged,
)
from tidegate.protocol.recovery.imports import not_restored
from tidegate.protocol.recovery.metadata import Edited, Metadata, read_metadata
from tidegate.protocol.steps.approvals import approved_with, with_approvals


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes by operator: the rows as `Editor.checked` returns them, whether they replace all rows of the operator,
    and a description."""

    rows: Mapping[str, Any] = field(default_factory=dict)
    replaced: Mapping[str, bool] = field(default_factory=dict)
    descriptions: tuple[str, ...] = ()


class Editing:
    """Edit savepoints of one pipeline."""

    def __init__(self, context: DefinedContext, identification: Identification) -> None:
        self._context = context
        self._pipeline_id = context.pipeline_id
        self._identification = identification
        self._auditing = Auditing(context)

    # -- the base of an edit

    def of_checkpoint(self, checkpoint_id: int | None) -> Base:
        """Return a checkpoint or savepoint in the database, by default the latest completed checkpoint.

        Raises `PipelineNotFoundError`, `CheckpointNotFoundError`, `CheckpointNotRetainedError`,
        `PipelineIdentityError`, and `StateIntegrityError` if its metadata cannot be read.
        """
        self._identification.check()
        record = find_kept(self._context.store, self._pipeline_id, checkpoint_id)
        known = self._context.store.subtasks(self._pipeline_id, record.checkpoint_id)
        content = self._context.storage.read(metadata_path(self._pipeline_id, record.checkpoint_id))
        metadata = read_metadata(self._pipeline_id, record.checkpoint_id, content)
        kind = "checkpoint" if record.kind is CheckpointKind.CHECKPOINT else "savepoint"
        origin = f"{kind} {record.name or record.checkpoint_id}"
        of_record = replace(metadata, record=record, subtasks=known, edited=None)
        return Base(of_record, self._context.storage.url, origin, is_in_database=True)

    def of_directory(self, url: str) -> Base:
        """Return a canonical savepoint, reading only its documents. Raises `RestoreRefusedError` if the directory is
        none of this pipeline, `StorageError`."""
        directory = SavepointDirectory(
            url, self._context.storage, lambda reason: not_restored(self._pipeline_id, url, reason)
        )
        savepoint = directory.read()
        if savepoint.metadata.record.pipeline_id != self._pipeline_id:
            raise SavepointEditError(
                f"The savepoint in {url} is of pipeline {savepoint.metadata.record.pipeline_id}, not of "
                f"{self._pipeline_id}. Nothing was written. Edit it with the definition of that pipeline."
            )
        record = savepoint.metadata.record.moved(completed_at=savepoint.marker.completed_at)
        return Base(replace(savepoint.metadata, record=record), directory.storage.url, url)

    def of_nothing(self) -> Base:
        """Return an empty base, for a pipeline that never ran. Its sources begin at their start. Raises
        `SavepointEditError` if it did run."""
        if self._context.store.history(self._pipeline_id, 1):
            raise SavepointEditError(
                f"Pipeline {self._pipeline_id} has run: this database has checkpoints of it, so no savepoint can be "
                "made for it from nothing. Nothing was written. Edit one of its checkpoints "
                "(tidegate.savepoint.edit), or give the new pipeline another name."
            )
        now = self._context.clock.now()
        record = begin_history(self._pipeline_id, self._context.graph.plan, now)
        return Base(Metadata(record, {}, endpoints=self._context.graph.endpoints), self._context.storage.url, "nothing")

    # -- the result of an edit

    def write(
        self,
        base: Base,
        to: str,
        by: str,
        changes: Changes,
        editor: Editor,
        validator: Validator,
        label: Label = UNLABELLED,
        action: UserAction | None = None,
    ) -> Complete:
        """Write the directory `to`, which must be empty or not exist yet, and return its marker.

        Before anything is written it raises `ConfigurationError`, `IllegalRequestError` for the label,
        `SavepointEditError`, and `StateSchemaError` if the definition cannot continue from the base. After that it
        raises `ValidationFailedError`, `StateIntegrityError`, `CheckpointNotRetainedError` if newer checkpoints have
        replaced the base, `StorageError`, and the errors of computing the rows, and leaves nothing behind.
        """
        with self._auditing.attempt(action) as entry:
            return self._write(base, to, by, changes, editor, validator, label, entry)

    def _write(
        self, base: Base, to: str, by: str, changes: Changes, editor: Editor, validator: Validator, label: Label,
        entry: AuditEntry,
    ) -> Complete:  # fmt: skip
        require_legal_label(CheckpointKind.SAVEPOINT, label)
        target = self._context.storage.elsewhere(to)
        self._require_possible(to, target)
        graph = self._context.graph
        plan = plan_edit(
            base,
            graph.plan,
            graph.upstreams,
            graph.renamed,
            changes.replaced,
            label,
            self._context.config.allow_non_restored_state,
        )
        try:
            runs = editor.rewrite(plan.record, to, plan.rewrites, plan.copies, changes.rows)
            now = self._context.clock.now()
            subtasks = rewritten(base, plan, runs, now)
            verdicts = list(validator.validate(plan.record, subtasks)) if graph.targets else []
            approvals = approved_with(base.metadata.record, base.metadata.verdicts)
            verdicts = with_approvals(verdicts, approvals, graph.holds)
            require_meets_expectations(plan.record, to, graph.targets, verdicts)
            subtasks = with_staged(subtasks, editor.restage(plan.record, to, subtasks))
            made_from = base.checkpoint_id if base.metadata.subtasks else None
            edited = Edited(by, now, base.origin, made_from, changes.descriptions)
            metadata = replace(base.metadata, record=plan.record, subtasks=subtasks, verdicts=verdicts, edited=edited)
            self._put_on_record(entry, base, to)
            return write_documents(graph, self._context.config, target, metadata)
        except Exception as error:
            _empty(target)
            if isinstance(error, StateIntegrityError) and base.is_in_database:  # unless it was replaced meanwhile
                find_kept(self._context.store, self._pipeline_id, base.checkpoint_id)
            raise

    def _put_on_record(self, entry: AuditEntry, base: Base, to: str) -> None:
        """Record the user action, before the documents make the directory a savepoint."""
        if entry.action is not None:
            with self._context.transaction() as tx:
                sentence = f"The state of pipeline {self._pipeline_id} at {base.origin} is written to {to}."
                entry.done(tx, self._context.clock.now(), sentence)

    def _require_possible(self, to: str, target: CheckpointStorage) -> None:
        restaged = [
            vertex for vertex in self._context.graph.sinks if vertex.operator_id in self._context.graph.restaged
        ]
        if fixed := [vertex.name for vertex in restaged if not isinstance(vertex.sink, PortableSink)]:
            raise ConfigurationError(
                f"No savepoint of pipeline {self._pipeline_id} can be edited: sink {', '.join(fixed)} cannot stage its "
                "rows elsewhere. Nothing was written. Make the sink a PortableSink."
            )
        if paths := target.list(""):
            raise ConfigurationError(
                f"A savepoint of pipeline {self._pipeline_id} cannot be written to {to}: it already contains "
                f"{paths[0]}. Nothing was written. Name a directory that is empty, or does not exist yet. Files "
                "without the marker _savepoint may be left by a command that was cut short. They are no savepoint, and "
                "can be deleted."
            )


def _empty(target: CheckpointStorage) -> None:
    """Empty the directory. Errors are ignored: without a marker the rest is no savepoint, and the first error matters
    more."""
    with suppress(CheckpointError):
        target.delete([MARKER, METADATA, *(path for part in PARTS for path in target.list(part))], PARTS)
