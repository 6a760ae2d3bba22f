"""`tidegate watch`: notices pipelines that complete no checkpoints, and tells those who asked to be told."""

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

#: Seconds between two looks at what nobody announces: the time.
LONGEST_WAIT = 60.0
#: Seconds until a signal is noticed, and until a database that is gone is asked again.
SHORTEST_WAIT = 1.0


def watch(
    pipelines: PipelinesArgument = None,
    once: Annotated[
        bool, typer.Option("--once", help="Look once and end: with 13 if something is stale or has failed.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Watch pipelines until Ctrl-C: say what becomes stale or fails, and tell those who asked to be told. It changes
    nothing else, and may run several times."""
    watched = [assembly.open_coordinator(assembly.load_pipeline(name)).reporting for name in _names(pipelines)]
    if not once:
        _go_on(watched)
        return
    found = [each.watch() for each in watched]
    show(list(map(_answer, found)), output, health_table)
    if not all(health.well for health in found):
        raise typer.Exit(ExitCode.UNWELL)


def _names(pipelines: list[str] | None) -> list[str]:
    names = pipelines or sorted(assembly.registered_pipelines())
    if not names:
        raise ConfigurationError(
            "Say which pipelines to watch, or list them under [tool.tidegate.pipelines] in pyproject.toml. Nothing was "
            "changed."
        )
    return names


def _go_on(watched: Sequence[Reporting]) -> None:
    """Look whenever something was committed or becomes due. A database that is gone is waited for."""
    store, said = assembly.open_store(), dict[str, str]()
    names = [each.pipeline_id for each in watched]
    say(f"Watching {', '.join(names)}. Ctrl-C ends it.")
    store.wait_for_changes(names, 0)  # from here on nothing that is committed is missed
    with stopping_on_signals() as stopping:
        while not stopping.is_set():
            try:
                found = [each.watch() for each in watched]
                for health in found:
                    if said.get(health.pipeline.pipeline_id) != health.summary():
                        said[health.pipeline.pipeline_id] = health.summary()
                        say(health.summary())
                left = _until_due(found)
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
    table = Table("Pipeline", "Well", "What is the matter", wrap=("What is the matter",))
    for health in found:
        table.add_row(escape(health.pipeline), "yes" if health.well else "no", escape(health.summary))
    return table
