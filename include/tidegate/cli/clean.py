"""`tidegate clean`: reports the retained files of each pipeline, with reason and size, and deletes the rest."""

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
from tidegate.documents.command_models import Cleaned, Cost, KeptCheckpoint, KeptFor
from tidegate.protocol.cleaning.clean_report import CleanReport, Kept, reasons_text
from tidegate.protocol.facts.errors import CheckpointError, ConfigurationError, PipelineNotFoundError
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.observing.actions import ActionKind

PipelinesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PIPELINE]...",
        help=r"module:attribute, or a name from \[tool.tidegate.pipelines]; by default all that are listed there.",
    ),
]


def clean(
    pipelines: PipelinesArgument = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report, and change nothing.")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Delete checkpoints that are too old and files that nothing refers to.

    Reports what each pipeline keeps, why, and how much space it takes, and verifies a sample of it. Safe to run next to
    running pipelines. If a retained file is damaged, no file of that pipeline is deleted, and the exit code is 10.
    """
    names = pipelines or sorted(assembly.registered_pipelines())
    if not names:
        raise ConfigurationError(
            "No pipeline was given, and none is listed under [tool.tidegate.pipelines] in pyproject.toml. Nothing was "
            "changed. Name the pipelines, or list them there."
        )
    known = assembly.open_store().pipelines()
    reports, errors = list[CleanReport](), list[CheckpointError]()
    for name in names:
        try:
            defined = assembly.load_pipeline(name)
            if defined.name in known:
                cleaning, action = assembly.open_coordinator(defined).cleaning, assembly.new_action(ActionKind.CLEAN)
                reports.append(cleaning.plan() if dry_run else cleaning.clean(action))
            elif pipelines:
                raise PipelineNotFoundError(
                    f"Pipeline {defined.name!r} has no checkpoints in this database, so there is nothing to "
                    "clean up. Nothing was changed. Run it first."
                )
        except CheckpointError as error:  # the other pipelines are cleaned up all the same
            errors.append(error)
    show(list(map(cleaned, reports)), output, report_tables)
    for other in errors[1:]:
        say(f"{type(other).__name__} {other}")
    if errors:
        raise errors[0]
    if any(report.damage for report in reports):
        raise typer.Exit(ExitCode.DAMAGED)


def cleaned(report: CleanReport) -> Cleaned:
    return Cleaned(
        pipeline=report.pipeline_id,
        changed=report.changed,
        kept=[_kept(each) for each in report.kept],
        total=Cost.model_validate(report.total),
        expired_checkpoints=[record.checkpoint_id for record in report.expired],
        freed=Cost.model_validate(report.freed),
        garbage=list(report.garbage),
        withdrawn_checkpoints={sink: list(ids) for sink, ids in report.withdrawn.items()},
        withdrawn_for_good={sink: list(ids) for sink, ids in report.withdrawn_for_good.items()},
        unknown_checkpoints=list(report.foreign),
        verified=Cost.model_validate(report.read),
        damage=list(report.damage),
        safe_checkpoints=report.safe,
        summary=report.summary(),
    )


def _kept(kept: Kept) -> KeptCheckpoint:
    record = kept.record
    return KeptCheckpoint(
        id=record.checkpoint_id,
        is_savepoint=record.kind is not CheckpointKind.CHECKPOINT,
        name=record.name,
        completed_at=record.completed_at,
        reasons=[KeptFor(reason=each.why.value, until=each.until) for each in kept.reasons],
        why=reasons_text(kept),
        full=Cost.model_validate(kept.full),
        alone=Cost.model_validate(kept.alone),
    )


def report_tables(reports: list[Cleaned]) -> Group:
    """Return the tables of retained checkpoints, with the space that each would free."""
    parts: list[Any] = []
    for report in reports:
        names = ("ID", "Why", "Files", "Full Size", "Alone")
        table = Table(*names, title=f"Pipeline {report.pipeline} keeps", leave=("Files", "Full Size"), wrap=("Why",))
        for each in report.kept:
            files, full = f"{each.full.files:,}", decimal(each.full.bytes)
            table.add_row(str(each.id), escape(each.why), files, full, decimal(each.alone.bytes))
        table.add_section()
        table.add_row("", "together", f"{report.total.files:,}", decimal(report.total.bytes), "")
        parts += [table, *(Text(line) for line in report.summary)]
    return Group(*parts)
