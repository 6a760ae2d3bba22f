"""The restores that a page offers now, and the parts of a plan that must be accepted. Pure."""

from collections.abc import Mapping
from typing import Any

from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.observing.actions import AnswerStatus, AuditRecord
from tidegate.protocol.recovery.restores_on_pages import UNDO, PlannedRestore
from tidegate.reading.checkpoint_answers import Checkpoint
from tidegate.reading.pipeline_answers import Overview
from tidegate.ui.dag_runs import Startable
from tidegate.ui.forms import Button, Check, Field, Hidden, Offer

_FIRST = "The plan is made first, which changes nothing. It shows the data to read again, and the rows to withdraw."
_PLAN = (Button("Show the plan", "plan-restore"),)


def restore_to(pipeline_id: str, checkpoint: Checkpoint, startable: Startable) -> Offer:
    """Return the offer on the page of a completed checkpoint."""
    what = "savepoint" if checkpoint.is_savepoint else "checkpoint"
    to = str(checkpoint.id)
    return _planned(
        "restore", f"Restore to this {what} …", f"--checkpoint {to}", pipeline_id, startable, (Hidden("to", to),)
    )


def restores_of_pipeline(overview: Overview, startable: Startable) -> list[Offer]:
    """Return the offers on the page of a pipeline: restore any checkpoint by number, or undo the last restore."""
    pipeline_id, latest = overview.pipeline.pipeline_id, overview.line.latest_completed
    offers = []
    if latest is not None and overview.pipeline.status is not PipelineStatus.CANCELLED:
        number = (Field("to", "Checkpoint", 19, str(latest)),)
        offers.append(_planned("restore", "Restore …", "--checkpoint ID", pipeline_id, startable, fields=number))
    if overview.can_undo:
        offers.append(_planned("undo", "Undo the restore …", "--undo", pipeline_id, startable, (Hidden("to", UNDO),)))
    return offers


def _planned(
    key: str,
    summary: str,
    option: str,
    pipeline_id: str,
    startable: Startable,
    hidden: tuple[Hidden, ...] = (),
    fields: tuple[Field, ...] = (),
) -> Offer:
    dag = startable.restores
    if dag is None:
        without = (
            "There is no DAG that restores this pipeline; `restore_dag` creates one. " if startable.airflow else ""
        )
        sentence = (
            f"{without}This needs the pipeline’s code. `tidegate restore {pipeline_id} {option} --dry-run` shows the "
            "plan where the code is, and restores without `--dry-run`."
        )
        return Offer(key, (), summary, sentence)
    denied = dag if dag in startable.denied else None
    return Offer(key, _PLAN, summary, _FIRST, fields, True, hidden=hidden, denied=denied, leads=True)


def offers_of_plan(planned: PlannedRestore, answer: AuditRecord | None, startable: Startable) -> list[Offer]:
    """Return the offers on the page of a plan: to carry it out, or else to make another one."""
    dag = planned.requested.dag_id
    denied = dag if dag in startable.denied else None
    if planned.document is not None and planned.confirmed is None:
        label = "Undo the restore" if planned.target == UNDO else f"Restore to checkpoint {planned.target}"
        button = Button(label, f"restore-plans/{planned.request_id}/restore")
        checks = tuple(checks_of(planned.document))
        return [Offer("confirm", (button,), checks=checks, final=True, denied=denied)]
    if planned.refusal is None and (answer is None or answer.answer.status is AnswerStatus.DONE):
        return []
    hidden = (Hidden("to", planned.target),)
    return [Offer("again", (Button("Make a new plan", "plan-restore"),), "", "", (), True, hidden=hidden,
                  denied=denied, leads=True)]  # fmt: skip


def checks_of(document: Mapping[str, Any]) -> list[Check]:
    """Return the parts of a plan that must be accepted, as in `protocol.recovery.restore_plan.require_accepted`."""
    checks = []
    if missing := sum(source["missing_files"] for source in document["sources"]):
        label = f"Continue without the rows of {missing} files that are gone or have changed"
        checks.append(Check("skip_missing_files", label))
    for sink in document["sinks"]:
        if not sink["can_rewind"]:
            label = f"Leave the later rows of sink {sink['sink']} as they are: rows that are read again appear twice"
            checks.append(Check("leave", label, sink["sink"], many=True))
    if lost := [each["operator_id"] for each in document["operators"] if not each["matched"]]:
        label = f"Drop the state of {', '.join(lost)}, for which the definition has no operator"
        checks.append(Check("allow_non_restored_state", label))
    return checks
