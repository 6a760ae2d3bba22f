"""`tidegate restore`: shows a plan, asks for confirmation, and carries it out."""

from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.filesize import decimal
from rich.text import Text

from tidegate import assembly
from tidegate.cli.options import OutputFormat, OutputOption, PipelineArgument, YesOption, say, show
from tidegate.cli.tables import Table
from tidegate.cli.views import returning_states_table
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.importing import ImportPlan
from tidegate.coordination.recovery.restore import Target, ToCheckpoint, Undo
from tidegate.documents.restores import plan_document
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.observing.actions import ActionKind
from tidegate.protocol.recovery.imports import ClaimMode
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.settings import absolute


class MissingFiles(StrEnum):
    REFUSE = "refuse"
    SKIP = "skip"


MissingFilesOption = Annotated[
    MissingFiles, typer.Option(help="Refuse or skip files to be read again that are gone or have changed.")
]
LeaveOption = Annotated[
    list[str] | None, typer.Option(metavar="SINK", help="Leave a sink that cannot be rewound as it is.")
]
AllowNonRestoredStateOption = Annotated[
    bool, typer.Option("--allow-non-restored-state", help="Drop state that the definition has no operator for.")
]


def restore(
    pipeline: PipelineArgument,
    checkpoint_id: Annotated[
        int | None, typer.Option("--checkpoint", metavar="ID", help="Restore this checkpoint or savepoint.")
    ] = None,
    savepoint: Annotated[
        str | None, typer.Option("--savepoint", metavar="NAME", help="Restore the savepoint of this name or number.")
    ] = None,
    latest: Annotated[bool, typer.Option("--latest", help="Restore the latest completed checkpoint.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last restore.")] = False,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="Restore the canonical savepoint in this directory.")
    ] = None,
    claim_mode: Annotated[
        ClaimMode, typer.Option(help="With --from: no-claim keeps the directory, claim empties it afterwards.")
    ] = ClaimMode.NO_CLAIM,
    relocate: Annotated[
        bool,
        typer.Option("--relocate", help="With --from: accept that sources or sinks were moved, with their tables."),
    ] = False,
    missing_files: MissingFilesOption = MissingFiles.REFUSE,
    leave: LeaveOption = None,
    allow_non_restored_state: AllowNonRestoredStateOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Restore an earlier checkpoint: state, positions of sources, and tables.

    Shows a plan first. Later checkpoints are abandoned, and kept for a while, so that --undo can bring them back.
    """
    defined = assembly.load_pipeline(pipeline)
    coordinator = assembly.open_coordinator(defined)
    details = {
        "checkpoint": checkpoint_id,
        "savepoint": savepoint,
        "latest": latest or None,
        "from": from_,
        "claim_mode": None if from_ is None else claim_mode,
        "relocate": relocate or None,
        "missing_files": missing_files,
        "leave": leave,
        "allow_non_restored_state": allow_non_restored_state or None,
    }
    action = None if dry_run else assembly.new_action(ActionKind.UNDO if undo else ActionKind.RESTORE, **details)
    with coordinator.auditing.attempt(action):
        target = _target(coordinator, checkpoint_id, savepoint, latest, undo, from_)
        if from_ is None and (relocate or claim_mode is not ClaimMode.NO_CLAIM):
            raise ConfigurationError("--claim-mode and --relocate need --from. Nothing was changed.")
        planned = coordinator.plan_restore_from(target) if isinstance(target, str) else coordinator.plan_restore(target)
    plan = planned.restore if isinstance(planned, ImportPlan) else planned
    show(plan_document(plan), output, plan_tables)
    if dry_run:
        return
    if not yes:
        typer.confirm(f"Restore {defined.name} to checkpoint {plan.checkpoint.checkpoint_id}?", abort=True, err=True)
    skip = missing_files is MissingFiles.SKIP
    accepted = Accepted(skip, tuple(leave or ()), allow_non_restored_state, relocate)
    if isinstance(planned, ImportPlan):
        coordinator.restore_from(planned.url, claim_mode, accepted, planned, action)
    elif not isinstance(target, str):
        coordinator.restore(target, accepted, planned, action)
    say(f"Pipeline {defined.name} was restored to checkpoint {plan.checkpoint.checkpoint_id}.")


def _target(
    coordinator: CheckpointCoordinator,
    checkpoint_id: int | None,
    savepoint: str | None,
    latest: bool,
    undo: bool,
    from_: str | None,
) -> Target | str:
    """Return the target of the restore, or the canonical savepoint's absolute path or URL.

    Raises:
        ConfigurationError: Unless exactly one was given.
    """
    if (checkpoint_id is not None) + (savepoint is not None) + (from_ is not None) + latest + undo != 1:
        raise ConfigurationError(
            "Exactly one option must name the target. Nothing was changed. Give --checkpoint ID, --savepoint NAME, "
            "--latest, --undo for the moment before the last restore, or --from URL for the directory of a canonical "
            "savepoint."
        )
    if from_ is not None:
        return absolute(from_)
    if savepoint is not None:
        checkpoint_id = coordinator.savepoints.find(savepoint).checkpoint_id
    return Undo() if undo else ToCheckpoint(checkpoint_id)


def plan_tables(document: dict[str, Any]) -> Group:
    """Return the tables that a user decides by. Sizes of state are those of files that stay in place: a restore moves
    none.
    """
    sources = Table("Source", "Reads again", "Missing", title="Sources", leave=(), wrap=("Missing",))
    for each in document["sources"]:
        sources.add_row(each["source"], f"{each['files']:,} files, {decimal(each['bytes'])}", _some(each["missing"]))
    operators = returning_states_table(document["operators"], "returns")
    sinks = Table("Sink", "Rows of checkpoints", "Withdrawn", title="Sinks", leave=(), wrap=("Rows of checkpoints",))
    for each in document["sinks"]:
        what = f"{each['files']:,} files" if each["rows"] is None else f"{each['rows']:,} rows"
        sinks.add_row(
            each["sink"],
            _some(each["withdrawn_checkpoints"]),
            f"{what}, {decimal(each['bytes'])}" if each["can_rewind"] else "cannot be withdrawn",
        )
    return Group(Text(_summary(document)), *(each for each in (sources, operators, sinks) if each.row_count))


def _summary(document: dict[str, Any]) -> str:
    checkpoint = document["checkpoint"]
    sentences = [f"Back to checkpoint {checkpoint['id']}."]
    if document["copied_from"] is not None:
        sentences.append(f"Its state is copied from {document['copied_from']}.")
    if document["edited"] is not None:
        sentences.append(document["edited"]["description"])
    sentences += [f"Moved: {moved}." for moved in document["moved"]]
    if ids := document["abandoned_checkpoints"]:
        sentences.append(f"Checkpoints left behind: {_some(ids)}.")
    if ids := document["returning_checkpoints"]:
        sentences.append(f"Checkpoints that come back: {_some(ids)}.")
    if ids := document["aborted_checkpoints"]:
        sentences.append(f"In progress, and aborted: {_some(ids)}.")
    for each in document["skipped"]:
        sentences.append(
            f"Source {each['source']} reaches the rows again that were skipped after checkpoint "
            f"{each['checkpoint']} (part {_some([rows['part'] for rows in each['lost']])}), and any lost since. Skip "
            "them again with `tidegate source skip`."
        )
    return " ".join(sentences)


def _some(names: list[Any]) -> str:
    shown = ", ".join(str(name) for name in names[:10])
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "")
