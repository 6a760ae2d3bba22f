"""`tidegate source`: `replace` accepts a file that was corrected after it was read, by a restore; `skip` continues
after rows that a source has lost.
"""

from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from tidegate import assembly
from tidegate.cli.console import plain
from tidegate.cli.options import EPILOG, OutputFormat, OutputOption, PipelineArgument, YesOption, say, show
from tidegate.cli.restore import AllowNonRestoredStateOption, LeaveOption, MissingFiles, MissingFilesOption, plan_tables
from tidegate.cli.tables import Table
from tidegate.cli.views import moment, size
from tidegate.coordination.recovery.corrected_files import Replacement
from tidegate.documents.restores import plan_document, skip_document
from tidegate.ports import PieceVersion
from tidegate.protocol.observing.actions import ActionKind
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.reading.answer import milliseconds

source = typer.Typer(help="Correct the data that a pipeline's sources have read.", no_args_is_help=True)


@source.callback()
def group() -> None:
    """Correct the data that a pipeline's sources have read."""


@source.command(name="replace", epilog=EPILOG)
def replace(
    pipeline: PipelineArgument,
    name: Annotated[str, typer.Argument(metavar="SOURCE", help="A source of the pipeline.")],
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="A file of the source, relative to its directory or with it.")
    ],
    missing_files: MissingFilesOption = MissingFiles.REFUSE,
    leave: LeaveOption = None,
    allow_non_restored_state: AllowNonRestoredStateOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Read files again that were corrected after they were read.

    Restores the newest checkpoint from before they were read. The next checkpoint reads them as they are now, with all
    later data. Shows a plan first.
    """
    defined = assembly.load_pipeline(pipeline)
    coordinator = assembly.open_coordinator(defined)
    details = {
        "source": name,
        "files": files,
        "missing_files": missing_files,
        "leave": leave,
        "allow_non_restored_state": allow_non_restored_state or None,
    }
    action = None if dry_run else assembly.new_action(ActionKind.RESTORE, **details)
    with coordinator.auditing.attempt(action):
        planned = coordinator.replacing.plan(name, files)
    show(replacement_document(defined.name, planned), output, replacement_tables)
    if dry_run:
        return
    back = planned.restore.checkpoint.checkpoint_id
    if not yes:
        typer.confirm(f"Restore {defined.name} to checkpoint {back}?", abort=True, err=True)
    accepted = Accepted(missing_files is MissingFiles.SKIP, tuple(leave or ()), allow_non_restored_state)
    coordinator.restore(planned.target, accepted, planned.restore, action)
    say(
        f"Pipeline {defined.name} was restored to checkpoint {back}. The next checkpoint reads "
        f"{', '.join(piece.name for piece in planned.pieces)} as it is now."
    )


@source.command(name="skip", epilog=EPILOG)
def skip(
    pipeline: PipelineArgument,
    name: Annotated[str, typer.Argument(metavar="SOURCE", help="A source of the pipeline.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Skip rows that were deleted before they were read, such as by a topic's retention.

    Shows first which rows of each partition are lost. The next checkpoint continues from the first that remains.
    """
    defined = assembly.load_pipeline(pipeline)
    coordinator = assembly.open_coordinator(defined)
    action = None if dry_run else assembly.new_action(ActionKind.SKIP, source=name)
    with coordinator.auditing.attempt(action):
        planned = coordinator.skipping.plan(name)
    document = skip_document(planned)
    show(document, output, skip_tables)
    if dry_run:
        return
    if not yes:
        typer.confirm(f"Continue without these rows of {name}?", abort=True, err=True)
    coordinator.skip(name, planned, assembly.new_action(ActionKind.SKIP, source=name, lost=document["lost"]))
    say(f"Source {name} of pipeline {defined.name} continues after the lost rows with the next checkpoint.")


def skip_tables(document: dict[str, Any]) -> Group:
    """Return the table that a user decides by."""
    table = Table("Part", "Lost from", "to", "Continues at", title=f"Source {document['source']}", leave=())
    for rows in document["lost"]:
        table.add_row(*(Text(plain(f"{cell}")) for cell in _lost(rows)))
    text = f"The next checkpoint continues from checkpoint {document['checkpoint']}."
    if ids := document["aborted_checkpoints"]:
        text += f" In progress, and aborted: {', '.join(map(str, ids))}."
    return Group(Text(text), table)


def _lost(rows: dict[str, Any]) -> tuple[str, int, str, str]:
    last = "unknown" if rows["last"] is None else str(rows["last"])
    return rows["part"], rows["first"], last, "the part no longer exists" if rows["next"] is None else str(rows["next"])


def replacement_document(pipeline: str, planned: Replacement) -> dict[str, Any]:
    """Return the plan as JSON; `restore` is as `tidegate restore` prints it."""
    return {
        "pipeline": pipeline,
        "source": planned.source,
        "files": [
            {
                "file": piece.name,
                "read_by_checkpoint": piece.checkpoint_id,
                "then": _version(piece.then),
                "now": None if piece.now is None else _version(piece.now),
            }
            for piece in planned.pieces
        ],
        "restore": plan_document(planned.restore),
    }


def _version(version: PieceVersion) -> dict[str, Any]:
    at: datetime = version.modified_at
    return {"bytes": version.bytes, "modified_timestamp": milliseconds(at), "checksum": version.checksum}


def replacement_tables(document: dict[str, Any]) -> Group:
    """Return the versions of each file, when it was read and now, and the plan of the restore."""
    names = ("File", "", "Size", "Modified", "Checksum", "Read by")
    table = Table(*names, title=f"Source {document['source']}", leave=("Checksum",), wrap=("File",))
    for each in document["files"]:
        for when, version in (("then", each["then"]), ("now", each["now"])):
            is_then = when == "then"
            table.add_row(
                each["file"] if is_then else "",
                when,
                size(version["bytes"]),
                moment(version["modified_timestamp"]),
                (version["checksum"] or "not kept")[:12],
                f"checkpoint {each['read_by_checkpoint']}" if is_then else "the next one",
            )
    return Group(table, plan_tables(document["restore"]))
