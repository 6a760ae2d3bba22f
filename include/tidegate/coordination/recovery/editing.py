"""Writes a savepoint that is made from another one, or from nothing, to a directory of its own.

The database is only read. The marker in the directory comes last. If the process dies before it, the files that are
there are no savepoint.
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
    """By operator: the rows as `Editor.checked` returns them, whether they are all that it has from now on, and what is
    changed in words."""

    rows: Mapping[str, Any] = field(default_factory=dict)
    replaced: Mapping[str, bool] = field(default_factory=dict)
    said: tuple[str, ...] = ()


class Editing:
    """Edits savepoints of one pipeline."""

    def __init__(self, context: DefinedContext, identification: Identification) -> None:
        self._context = context
        self._pipeline_id = context.pipeline_id
        self._identification = identification
        self._auditing = Auditing(context)

    # -- what is edited

    def of_checkpoint(self, checkpoint_id: int | None) -> Base:
        """A checkpoint or savepoint in the database, by default the latest completed checkpoint.

        Raises `PipelineNotFoundError`, `CheckpointNotFoundError`, `CheckpointNotRetainedError`,
        `PipelineIdentityError`, and `StateIntegrityError` if its metadata cannot be read.
        """
        self._identification.check()
        record = find_kept(self._context.store, self._pipeline_id, checkpoint_id)
        known = self._context.store.subtasks(self._pipeline_id, record.checkpoint_id)
        content = self._context.storage.read(metadata_path(self._pipeline_id, record.checkpoint_id))
        metadata = read_metadata(self._pipeline_id, record.checkpoint_id, content)
        what = "checkpoint" if record.kind is CheckpointKind.CHECKPOINT else "savepoint"
        origin = f"{what} {record.name or record.checkpoint_id}"
        of_record = replace(metadata, record=record, subtasks=known, edited=None)
        return Base(of_record, self._context.storage.url, origin, is_in_database=True)

    def of_directory(self, url: str) -> Base:
        """A canonical savepoint. Reads its documents only. Raises `RestoreRefusedError` if that is none of this
        pipeline, `StorageError`."""
        directory = SavepointDirectory(
            url, self._context.storage, lambda why: not_restored(self._pipeline_id, url, why)
        )
        found = directory.read()
        if found.metadata.record.pipeline_id != self._pipeline_id:
            raise SavepointEditError(
                f"The savepoint in {url} is of pipeline {found.metadata.record.pipeline_id}, not of "
                f"{self._pipeline_id}. Nothing was written. Edit it with the definition of that pipeline."
            )
        record = found.metadata.record.moved(completed_at=found.marker.completed_at)
        return Base(replace(found.metadata, record=record), directory.storage.url, url)

    def of_nothing(self) -> Base:
        """For a pipeline that never ran: its sources begin at their start. Raises `SavepointEditError` if it did."""
        if self._context.store.history(self._pipeline_id, 1):
            raise SavepointEditError(
                f"Pipeline {self._pipeline_id} has run: this database knows checkpoints of it, so no savepoint can be "
                "made for it from nothing. Nothing was written. Edit one of its checkpoints "
                "(tidegate.savepoint.edit), or give the new pipeline another name."
            )
        now = self._context.clock.now()
        record = begin_history(self._pipeline_id, self._context.graph.plan, now)
        return Base(Metadata(record, {}, endpoints=self._context.graph.endpoints), self._context.storage.url, "nothing")

    # -- what it becomes

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
        """Write the directory `to`, which must be empty, or not there yet; returns its marker.

        Raises `ConfigurationError`, `IllegalRequestError` for the label, `SavepointEditError`, `StateSchemaError` if
        the definition cannot go on from the base, before anything is written; then `ValidationFailedError`,
        `StateIntegrityError`, `CheckpointNotRetainedError` if newer checkpoints have replaced the base, `StorageError`
        and what the rows raise when they are computed, and nothing is left.
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
            edited = Edited(by, now, base.origin, made_from, changes.said)
            metadata = replace(base.metadata, record=plan.record, subtasks=subtasks, verdicts=verdicts, edited=edited)
            self._put_on_record(entry, base, to)
            return write_documents(graph, self._context.config, target, metadata)
        except Exception as error:
            _empty(target)
            if isinstance(error, StateIntegrityError) and base.is_in_database:  # unless it was replaced meanwhile
                find_kept(self._context.store, self._pipeline_id, base.checkpoint_id)
            raise

    def _put_on_record(self, entry: AuditEntry, base: Base, to: str) -> None:
        """Before the documents make a savepoint of what was written."""
        if entry.action is not None:
            with self._context.transaction() as tx:
                said = f"The state of pipeline {self._pipeline_id} at {base.origin} is written to {to}."
                entry.done(tx, self._context.clock.now(), said)

    def _require_possible(self, to: str, target: CheckpointStorage) -> None:
        restaged = [
            vertex for vertex in self._context.graph.sinks if vertex.operator_id in self._context.graph.restaged
        ]
        if fixed := [vertex.name for vertex in restaged if not isinstance(vertex.sink, PortableSink)]:
            raise ConfigurationError(
                f"No savepoint of pipeline {self._pipeline_id} can be edited: sink {', '.join(fixed)} cannot stage its "
                "rows elsewhere. Nothing was written. Let it be a PortableSink."
            )
        if found := target.list(""):
            raise ConfigurationError(
                f"A savepoint of pipeline {self._pipeline_id} cannot be written to {to}: there is something already "
                f"({found[0]}). Nothing was written. Name a directory that is empty, or not there yet. Files without "
                "the marker _savepoint may be left of a command that was cut short: then they are no savepoint, and "
                "can be deleted."
            )


def _empty(target: CheckpointStorage) -> None:
    """What cannot be deleted is no savepoint: the error that led here is the one to see."""
    with suppress(CheckpointError):
        target.delete([MARKER, METADATA, *(path for part in PARTS for path in target.list(part))], PARTS)
