"""`tidegate`: the command line. Every command is a few calls to the coordinator or the store, then a view."""

from typing import Annotated

import typer

import tidegate as library
from tidegate import assembly
from tidegate.cli import run as running
from tidegate.cli import views
from tidegate.cli.actions import abort, carry_out_action, dispose, rename, resume, suspend
from tidegate.cli.audit import audit
from tidegate.cli.check import check
from tidegate.cli.checkpoint_page import checkpoint_page
from tidegate.cli.clean import clean
from tidegate.cli.compare import compare
from tidegate.cli.continuous import run_continuously
from tidegate.cli.database import database
from tidegate.cli.doctor import doctor
from tidegate.cli.doubts import doubts
from tidegate.cli.errors import Wishes, end
from tidegate.cli.export import FormatOption, SavepointFormat, ToOption, take_savepoint
from tidegate.cli.fork import fork
from tidegate.cli.hold import approve, reject
from tidegate.cli.options import (
    EPILOG,
    OutputFormat,
    OutputOption,
    PipelineArgument,
    YesOption,
    details,
    known_pipeline,
    name_of,
    say,
    say_or_show,
    show,
    stderr,
)
from tidegate.cli.plan import plan
from tidegate.cli.projects import init, pipelines
from tidegate.cli.recover import recover
from tidegate.cli.restore import restore
from tidegate.cli.rewrite import rewrite
from tidegate.cli.savepoints import NameOption, NoteOption, savepoint, savepoints
from tidegate.cli.source import source
from tidegate.cli.state import state
from tidegate.cli.take import carry_out, new_request_by_hand, show_outcome
from tidegate.cli.ui import ui
from tidegate.cli.watch import watch
from tidegate.documents.command_models import Relocated, Statistics, StatusOf
from tidegate.protocol.facts.errors import CheckpointError, PipelineNotFoundError
from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.observing.actions import ActionKind
from tidegate.protocol.text.installed import not_installed
from tidegate.protocol.text.lost_spark import is_lost, lost_error

app = typer.Typer(
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidegate {library.__version__}")
        raise typer.Exit


@app.callback()
def tidegate(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="After an error, show its causes.")] = False,
) -> None:
    """Take, inspect and restore checkpoints of PySpark pipelines.

    Every command has a help text: `tidegate COMMAND --help`.
    """
    context.obj.verbose = verbose


def run(
    pipeline: PipelineArgument,
    continuous: Annotated[
        bool,
        typer.Option("--continuous", help="Keep running, and take checkpoints when they are due or requested."),
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Take one checkpoint without Airflow, or keep running with --continuous.

    The steps are trigger, snapshot, validate, finalize and notify. If an earlier run was interrupted, its checkpoint is
    resumed.
    """
    defined = assembly.load_pipeline(pipeline)
    if continuous:
        _show_status(run_continuously(defined, stderr()), OutputFormat.TABLE)
        return
    request_id = running.unfinished_request(assembly.open_store(writes=True), defined.name) or running.new_request()
    show_outcome(carry_out(defined, request_id, CheckpointKind.CHECKPOINT, output, wait=False), output)


def checkpoints(
    pipeline: PipelineArgument,
    limit: Annotated[int, typer.Option(min=1, help="The number of checkpoints to show, newest first.")] = 10,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List a pipeline's checkpoints, newest first."""
    _, name = known_pipeline(pipeline)
    show(assembly.open_readings().history(name, limit=limit).history, output, views.history_table)


def stats(pipeline: PipelineArgument, output: OutputOption = OutputFormat.TABLE) -> None:
    """Show statistics of a pipeline's checkpoints, and its lag.

    Shows counts, durations and sizes with percentiles, the latest checkpoints, and the data that the last poll of each
    source has found and not read yet.
    """
    _, name = known_pipeline(pipeline)
    readings = assembly.open_readings()
    line = readings.line(name)
    held = readings.history(name, before=line.held[-1] + 1, limit=1).history[0] if line.held else None
    found = Statistics(**dict(readings.summary(name)) | {"held": held}, lag=line.lag, parts=readings.parts_behind(name))
    show(found, output, views.statistics_tables)


def checkpoint(
    pipeline: PipelineArgument,
    checkpoint_id: Annotated[int | None, typer.Argument(metavar="[ID]", help="The checkpoint to show.")] = None,
    request_id: Annotated[
        str | None,
        typer.Option(help="The id of the request. Repeated requests with the same id count once."),
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Take a checkpoint, or with an ID show one.

    A new checkpoint is taken after the requests that have precedence. An existing one is shown with its operators,
    subtasks and verdicts, and the reason if it failed.
    """
    if checkpoint_id is None:
        defined, request = assembly.load_pipeline(pipeline), request_id or new_request_by_hand()
        show_outcome(carry_out(defined, request, CheckpointKind.CHECKPOINT, output), output)
        return
    if request_id:
        raise typer.BadParameter("--request-id is for a new checkpoint. Leave the ID out.")
    document = details(name_of(pipeline), checkpoint_id)
    show(document, output, checkpoint_page)


def stop(
    pipeline: PipelineArgument,
    drain: Annotated[
        bool, typer.Option(help="Stop for good: all inputs count as ended, and the pipeline cannot be resumed.")
    ] = False,
    name: NameOption = None,
    note: NoteOption = None,
    format_: FormatOption = SavepointFormat.NATIVE,
    to: ToOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Take a savepoint and stop the pipeline.

    A checkpoint in progress is aborted. `resume` continues from the savepoint. If an earlier run of this command was
    interrupted, its savepoint is resumed.
    """
    defined = assembly.load_pipeline(pipeline)
    store = assembly.open_store(writes=True)
    resumed = running.unfinished_stop(store, defined.name, drain)
    take_savepoint(defined, resumed, CheckpointKind.SYNC_SAVEPOINT, output, Label(name, note), format_, to, drain=drain)
    stopped = store.pipeline(defined.name)
    assert stopped is not None
    say(f"Pipeline {defined.name} is {stopped.status}. {stopped.message}")


def cancel(pipeline: PipelineArgument, yes: YesOption = False, output: OutputOption = OutputFormat.TABLE) -> None:
    """Cancel the pipeline for good.

    Its tables stay. Its state is deleted unless CheckpointConfig.retention keeps it; only `restore` can continue from a
    retained checkpoint or savepoint. By name, without the pipeline's code, the command is refused while a table does
    not show a completed checkpoint yet.
    """
    try:
        defined = assembly.load_pipeline(pipeline)
    except PipelineNotFoundError:
        assembly.open_operations(name_of(pipeline))
        if not yes:
            typer.confirm(f"Cancel {pipeline} for good?", abort=True)
        carry_out_action(pipeline, lambda operations, id_, actor: operations.cancel(id_, actor), output)
        return
    if not yes:
        typer.confirm(f"Cancel {defined.name} for good (retention: {defined.checkpoints.retention})?", abort=True)
    _show_status(assembly.open_coordinator(defined).cancel(assembly.new_action(ActionKind.CANCEL)), output)


def relocate(
    pipeline: PipelineArgument,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Let sinks write to directories that another pipeline no longer uses.")
    ] = False,
    yes: YesOption = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Confirm that sources or sinks were moved on purpose.

    Until then, checkpoints of a pipeline whose sources or sinks have moved are refused, because it may be another
    pipeline of the same name. With --take-over, directories that another pipeline or database owns become this
    pipeline's, with their content.
    """
    defined = assembly.load_pipeline(pipeline)
    coordinator = assembly.open_coordinator(defined)
    moved = coordinator.moved(take_over)
    for move in moved:
        say(f"Pipeline {defined.name}: {move}.")
    if moved and not yes:
        typer.confirm("Continue from there with the existing state and positions?", abort=True)
    details = {"take_over": True} if take_over else {}
    relocated = coordinator.relocate(assembly.new_action(ActionKind.RELOCATE, **details), take_over)
    sentence = (
        f"{len(relocated)} of its sources and sinks are recorded in their new place"
        if relocated
        else "no source or sink has moved"
    )
    done = Relocated(pipeline=defined.name, moved=[str(each) for each in relocated])
    say_or_show(f"Pipeline {defined.name}: {sentence}.", done, output)


def _show_status(record: PipelineRecord, output: OutputFormat) -> None:
    name = record.pipeline_id
    found = StatusOf(pipeline=name, status=record.status, since=record.since, message=record.message)
    say_or_show(f"Pipeline {name} is {record.status}.", found, output)


#: The commands, as `tidegate --help` groups them.
_GROUPS = {
    "Projects": (init, doctor, check, plan, pipelines),
    "Runs": (run, checkpoint, stop, cancel, suspend, resume, abort, approve, reject, watch),
    "Inspection": (checkpoints, stats, state, doubts, compare, audit, ui),
    "Savepoints and restores": (savepoint, savepoints, rename, dispose, rewrite, restore, fork),
    "Maintenance": (clean, relocate, recover),
}
for group, commands in _GROUPS.items():
    for command in commands:
        app.command(epilog=EPILOG, rich_help_panel=group)(command)
app.add_typer(source, name="source", rich_help_panel="Maintenance")
app.add_typer(database, name="db", rich_help_panel="Maintenance")


def main() -> None:
    """Run the command line. An error that a user can meet becomes one paragraph and an exit code, not a traceback."""
    wishes = Wishes()
    try:
        app(obj=wishes)
    except CheckpointError as error:
        end(error, wishes)
    except ModuleNotFoundError as error:
        if (missing := not_installed(error.name)) is None:
            raise
        end(missing, wishes)
    except Exception as error:
        if not is_lost(error):
            raise
        end(lost_error(str(error), "the command ran"), wishes)


if __name__ == "__main__":
    main()
