"""`tidegate clean`: says what of each pipeline is kept, why and at what cost, and deletes what is too old or left."""

from typing import Annotated, Any

import typer
from rich.console import Group
from rich.filesize import decimal
from rich.markup import escape
from rich.text import Text

from tidegate import assembly
from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import OutputFormat, OutputOption, say, show
from tidegate.cli.tables import Table
from tidegate.protocol.cleaning.clean_report import CleanReport, Cost, Kept, reasons_text
from tidegate.protocol.facts.errors import CheckpointError, ConfigurationError, PipelineNotFoundError
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.observing.gestures import GestureKind
from tidegate.reading.answer import milliseconds

PipelinesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PIPELINE]...",
        help=r"module:attribute, or a name from \[tool.tidegate.pipelines]; by default all that are listed there.",
    ),
]


def clean(
    pipelines: PipelinesArgument = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done and change nothing.")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Say what is kept of pipelines, why, and what it costs; verify a sample of it; delete checkpoints that are too
    old, and files that nothing refers to. Safe beside pipelines that run. While something that is kept is damaged,
    nothing of that pipeline is deleted, and the exit code is 10."""
    names = pipelines or sorted(assembly.registered_pipelines())
    if not names:
        raise ConfigurationError(
            "Say which pipelines to clean up after, or list them under [tool.tidegate.pipelines] in pyproject.toml. "
            "Nothing was changed."
        )
    known = assembly.open_store().pipelines()
    reports, errors = list[CleanReport](), list[CheckpointError]()
    for name in names:
        try:
            defined = assembly.load_pipeline(name)
            if defined.name in known:
                cleaning, gesture = assembly.open_coordinator(defined).cleaning, assembly.new_gesture(GestureKind.CLEAN)
                reports.append(cleaning.plan() if dry_run else cleaning.clean(gesture))
            elif pipelines:
                raise PipelineNotFoundError(
                    f"No checkpoint of a pipeline {defined.name!r} was ever requested in this database."
                )
        except CheckpointError as error:  # the others are cleaned up after all the same
            errors.append(error)
    show([report_document(report) for report in reports], output, report_tables)
    for other in errors[1:]:
        say(f"{type(other).__name__} {other}")
    if errors:
        raise errors[0]
    if any(report.damage for report in reports):
        raise typer.Exit(ExitCode.DAMAGED)


def report_document(report: CleanReport) -> dict[str, Any]:
    """The report as JSON; sizes are bytes."""
    return {
        "pipeline": report.pipeline_id,
        "changed": report.changed,
        "kept": [_kept(each) for each in report.kept],
        "total": _cost(report.total),
        "expired_checkpoints": [record.checkpoint_id for record in report.expired],
        "freed": _cost(report.freed),
        "garbage": [{"owner": deletion.owner, "path": deletion.path} for deletion in report.garbage],
        "withdrawn_checkpoints": {sink: list(ids) for sink, ids in report.withdrawn.items()},
        "withdrawn_for_good": {sink: list(ids) for sink, ids in report.withdrawn_for_good.items()},
        "unknown_checkpoints": list(report.foreign),
        "verified": _cost(report.read),
        "damage": [
            {"path": each.path, "problem": each.problem, "checkpoints": list(each.checkpoints)}
            for each in report.damage
        ],
        "safe_checkpoints": report.safe,
        "summary": report.summary(),
    }


def _kept(kept: Kept) -> dict[str, Any]:
    record = kept.record
    return {
        "id": record.checkpoint_id,
        "is_savepoint": record.kind is not CheckpointKind.CHECKPOINT,
        "name": record.name,
        "completed_timestamp": milliseconds(record.completed_at),
        "reasons": [{"reason": each.why.value, "until_timestamp": milliseconds(each.until)} for each in kept.reasons],
        "why": reasons_text(kept),
        "full": _cost(kept.full),
        "alone": _cost(kept.alone),
    }


def _cost(cost: Cost) -> dict[str, int]:
    return {"files": cost.files, "bytes": cost.bytes}


def report_tables(documents: list[dict[str, Any]]) -> Group:
    """What a person looks for: what is kept, and what each would set free."""
    parts: list[Any] = []
    for document in documents:
        title = f"Pipeline {document['pipeline']} keeps"
        names = ("ID", "Why", "Files", "Full Size", "Alone")
        table = Table(*names, title=title, leave=("Files", "Full Size"), wrap=("Why",))
        for each in document["kept"]:
            full, alone = each["full"], each["alone"]
            table.add_row(
                str(each["id"]), escape(each["why"]), f"{full['files']:,}", decimal(full["bytes"]),
                decimal(alone["bytes"]),
            )  # fmt: skip
        total = document["total"]
        table.add_section()
        table.add_row("", "together", f"{total['files']:,}", decimal(total["bytes"]), "")
        parts += [table, *(Text(line) for line in document["summary"])]
    return Group(*parts)
