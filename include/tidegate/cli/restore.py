"""`tidegate restore`: shows the plan, asks, and carries it out."""

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
    MissingFiles, typer.Option(help="What to do if files that would be read again are gone or have changed.")
]
LeaveOption = Annotated[
    list[str] | None, typer.Option(metavar="SINK", help="A sink that cannot be rewound, and stays as it is.")
]
AllowNonRestoredStateOption = Annotated[
    bool, typer.Option("--allow-non-restored-state", help="Drop state that the definition has no operator for.")
]


def restore(
    pipeline: PipelineArgument,
    checkpoint_id: Annotated[
        int | None, typer.Option("--checkpoint", metavar="ID", help="Back to this checkpoint or savepoint.")
    ] = None,
    savepoint: Annotated[
        str | None, typer.Option("--savepoint", metavar="NAME", help="Back to the savepoint of this name or number.")
    ] = None,
    latest: Annotated[bool, typer.Option("--latest", help="To the latest completed checkpoint.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="To where the pipeline was before its last restore.")] = False,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="To the canonical savepoint in this directory.")
    ] = None,
    claim_mode: Annotated[
        ClaimMode, typer.Option(help="With --from: no-claim leaves the directory to you, claim empties it afterwards.")
    ] = ClaimMode.NO_CLAIM,
    relocate: Annotated[
        bool, typer.Option("--relocate", help="With --from: sources or sinks were moved on purpose, with their tables.")
    ] = False,
    missing_files: MissingFilesOption = MissingFiles.REFUSE,
    leave: LeaveOption = None,
    allow_non_restored_state: AllowNonRestoredStateOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Go back to an earlier checkpoint: state, positions of sources, and tables. First shows a plan. Later checkpoints
    are left behind, and kept for a while: --undo brings them back."""
    defined = assembly.load_pipeline(pipeline)
    coordinator = assembly.open_coordinator(defined)
    asked = {
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
    action = None if dry_run else assembly.new_action(ActionKind.UNDO if undo else ActionKind.RESTORE, **asked)
    with coordinator.auditing.attempt(action):
        target = _target(coordinator, checkpoint_id, savepoint, latest, undo, from_)
        if from_ is None and (relocate or claim_mode is not ClaimMode.NO_CLAIM):
            raise ConfigurationError("--claim-mode and --relocate are for --from. Nothing was changed.")
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
    """Exactly one of them says where to go; `from_` as an absolute path or URL. Raises `ConfigurationError`."""
    if (checkpoint_id is not None) + (savepoint is not None) + (from_ is not None) + latest + undo != 1:
        raise ConfigurationError(
            "Say where to go back to, in one way: --checkpoint ID, --savepoint NAME, --from URL for the directory of a "
            "canonical savepoint, --latest, or --undo for the moment before the last restore. Nothing was changed."
        )
    if from_ is not None:
        return absolute(from_)
    if savepoint is not None:
        checkpoint_id = coordinator.savepoints.find(savepoint).checkpoint_id
    return Undo() if undo else ToCheckpoint(checkpoint_id)


def plan_tables(document: dict[str, Any]) -> Group:
    """What a person decides by. Sizes of state are of files that stay where they are: a restore moves none."""
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
    said = [f"Back to checkpoint {checkpoint['id']}."]
    if document["copied_from"] is not None:
        said.append(f"Its state is copied from {document['copied_from']}.")
    if document["edited"] is not None:
        said.append(document["edited"]["said"])
    said += [f"Moved: {moved}." for moved in document["moved"]]
    if ids := document["abandoned_checkpoints"]:
        said.append(f"Checkpoints left behind: {_some(ids)}.")
    if ids := document["returning_checkpoints"]:
        said.append(f"Checkpoints that come back: {_some(ids)}.")
    if ids := document["aborted_checkpoints"]:
        said.append(f"In progress, and aborted: {_some(ids)}.")
    for each in document["skipped"]:
        said.append(
            f"Source {each['source']} meets again what was skipped after checkpoint {each['checkpoint']} (part "
            f"{_some([rows['part'] for rows in each['lost']])}), and what it has lost since: skip it again with "
            "`tidegate source skip`."
        )
    return " ".join(said)


def _some(names: list[Any]) -> str:
    shown = ", ".join(str(name) for name in names[:10])
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "")
