"""`tidegate watch`: detects pipelines that complete no checkpoints, and sends notifications."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.markup import escape

from tidegate import assembly
from tidegate.cli.clean import PipelinesArgument
from tidegate.cli.continuous import stopping_on_signals
from tidegate.cli.exit_codes import ExitCode
from tidegate.cli.options import OutputFormat, OutputOption, say, show
from tidegate.cli.tables import Table
from tidegate.coordination.observing.reporting import Reporting
from tidegate.coordination.observing.staleness import Health
from tidegate.documents import command_models
from tidegate.protocol.facts.errors import ConfigurationError, StoreUnavailableError

#: The seconds between two polls when there is no notification, because time passes without one.
LONGEST_WAIT = 60.0
#: The seconds until a signal is noticed, and until a lost database is polled again.
SHORTEST_WAIT = 1.0


def watch(
    pipelines: PipelinesArgument = None,
    once: Annotated[
        bool, typer.Option("--once", help="Check once and end, with exit code 13 if a pipeline is stale or has failed.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Watch pipelines until Ctrl-C, and notify when one becomes stale or fails.

    Prints the events and sends the configured notifications. Changes nothing else, and may run several times at once.
    """
    watched = [assembly.open_coordinator(assembly.load_pipeline(name)).reporting for name in _names(pipelines)]
    if not once:
        _go_on(watched)
        return
    healths = [reporting.watch() for reporting in watched]
    show(list(map(_answer, healths)), output, health_table)
    if not all(health.well for health in healths):
        raise typer.Exit(ExitCode.UNWELL)


def _names(pipelines: list[str] | None) -> list[str]:
    names = pipelines or sorted(assembly.registered_pipelines())
    if not names:
        raise ConfigurationError(
            "No pipeline was given, and none is listed under [tool.tidegate.pipelines] in pyproject.toml. Nothing was "
            "changed. Name the pipelines, or list them there."
        )
    return names


def _go_on(watched: Sequence[Reporting]) -> None:
    """Check health after every commit and at every deadline. If the database is lost, wait for it."""
    store, printed = assembly.open_store(), dict[str, str]()
    names = [each.pipeline_id for each in watched]
    say(f"Watching {', '.join(names)}. Press Ctrl-C to stop.")
    store.wait_for_changes(names, 0)  # from here on, no commit is missed
    with stopping_on_signals() as stopping:
        while not stopping.is_set():
            try:
                healths = [reporting.watch() for reporting in watched]
                for health in healths:
                    if printed.get(health.pipeline.pipeline_id) != health.summary():
                        printed[health.pipeline.pipeline_id] = health.summary()
                        say(health.summary())
                left = _until_due(healths)
                while left > 0 and not stopping.is_set() and not store.wait_for_changes(names, SHORTEST_WAIT):
                    left -= SHORTEST_WAIT
            except StoreUnavailableError as error:
                say(str(error))
                stopping.wait(SHORTEST_WAIT)


def _until_due(found: Sequence[Health]) -> float:
    now = datetime.now(UTC)
    times = [(health.stale_at - now).total_seconds() for health in found if health.stale_at is not None]
    return min([LONGEST_WAIT, *(max(each, 0.0) + SHORTEST_WAIT for each in times)])


def _answer(health: Health) -> command_models.Health:
    pipeline, failing = health.pipeline, health.failing
    return command_models.Health(
        pipeline=pipeline.pipeline_id,
        status=pipeline.status.value,
        well=health.well,
        stale=health.stale,
        stale_since=pipeline.stale_since,
        failed_checkpoint=None if failing is None else failing.checkpoint_id,
        failure_reason=None if failing is None or failing.failure_reason is None else failing.failure_reason.name,
        summary=health.summary(),
    )


def health_table(found: list[command_models.Health]) -> Table:
    table = Table("Pipeline", "Well", "Details", wrap=("Details",))
    for health in found:
        table.add_row(escape(health.pipeline), "yes" if health.well else "no", escape(health.summary))
    return table
