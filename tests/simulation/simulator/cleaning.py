"""Somebody who runs `tidegate clean` at any moment, beside everything else, and what its report says."""

from typing import TYPE_CHECKING

from simulator.live_files import references
from simulator.scheduler import require
from tidegate.protocol.cleaning.clean_report import CleanReport
from tidegate.protocol.facts.lifecycle import Status

if TYPE_CHECKING:
    from memory_state import PipelineState

    from simulator.world import World


def clean(world: "World") -> None:
    """What it deletes, `live_files` looks at. Nothing here is damaged, whatever else goes on."""
    cleaning, only_a_plan = world.open_coordinator().cleaning, world.aside.random() < 0.3
    if only_a_plan and world.scheduler.current is not None:
        world.observer.only_read.add(world.scheduler.current)
    report = cleaning.plan() if only_a_plan else cleaning.clean()
    require(not report.damage, f"what another process did is called damage: {report.damage_lines()}")
    require(report.changed != only_a_plan, f"the report says that something {'' if report.changed else 'un'}changed")


def check_report(world: "World", report: CleanReport) -> None:
    """When nobody else is about: it names all that is kept and nothing else, and has left nothing to delete."""
    state = world.store.state
    kept = [record.checkpoint_id for record in state.checkpoints.values() if record.status is Status.COMPLETED]
    named = [each.record.checkpoint_id for each in report.kept]
    require(named == kept, f"checkpoints {kept} are kept, and the report names {named}")
    left = (report.expired, report.garbage, report.withdrawn_for_good, report.foreign, report.damage)
    require(not any(left), f"after a cleaning there is still something to clean: {left}")
    sizes = _sizes(world, state)
    expected = len(sizes), sum(sizes.values())
    require((report.total.files, report.total.bytes) == expected, f"{expected} is kept, and not {report.total}")


def _sizes(world: "World", state: "PipelineState") -> dict[tuple[str, str], int]:
    """Of all files that something refers to, each once, but for what sinks that are appended to have staged."""
    tables = {vertex.operator_id for vertex in world.graph.sinks if vertex.operator_id in world.graph.restaged}
    sizes = {("storage", path): run.handle.bytes for path, run in state.compactions.items()}
    for id_, record in state.checkpoints.items():
        if record.status is Status.COMPLETED:
            needed = references(world, record)
            for subtask, known in state.subtasks[id_].items():
                for handle in known.snapshot.handles:
                    for owner in ("storage", f"sink:{subtask.operator_id}"):
                        mine = owner == "storage" or subtask.operator_id in tables
                        if mine and (owner, handle.path) in needed:
                            sizes[owner, handle.path] = handle.bytes
    return sizes
