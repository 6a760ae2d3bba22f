"""The identity of a pipeline: whether a definition matches the recorded one by its sources and sinks and their places.

Two programs of one name would otherwise go on from each other's positions and state. A new source or sink is recorded.
A removed one stays recorded, so that it is checked when it returns. One that has moved is refused until the user
confirms the move.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate.protocol.facts.errors import PipelineIdentityError, PipelineStatusError
from tidegate.protocol.facts.paths import marked_by
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.steps.notify import choose_unnotified


class Role(StrEnum):
    SOURCE = "SOURCE"
    SINK = "SINK"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A source or sink with its type and its place. The place is relative to the project's home if it lies below it, so
    that a laptop and a container agree; empty if there is none."""

    role: Role
    name: str
    type: str
    place: str

    @property
    def key(self) -> tuple[Role, str]:
        return self.role, self.name

    def __str__(self) -> str:
        return f"{self.type} at {self.place}" if self.place else self.type


@dataclass(frozen=True, slots=True)
class Moved:
    """A source or sink whose definition differs from its record."""

    recorded: Endpoint
    defined: Endpoint

    def __str__(self) -> str:
        return f"{self.defined.role.lower()} {self.defined.name!r} is {self.recorded}, and here it is {self.defined}"


def find_new(recorded: Sequence[Endpoint], defined: Sequence[Endpoint]) -> list[Endpoint]:
    """Find sources and sinks that are defined but were never recorded. Performs no I/O."""
    known = {endpoint.key for endpoint in recorded}
    return [endpoint for endpoint in defined if endpoint.key not in known]


def find_moved(recorded: Sequence[Endpoint], defined: Sequence[Endpoint]) -> list[Moved]:
    """Find sources and sinks whose definition differs from the record. Performs no I/O."""
    known = {endpoint.key: endpoint for endpoint in recorded}
    return [
        Moved(known[endpoint.key], endpoint) for endpoint in defined if known.get(endpoint.key, endpoint) != endpoint
    ]


def require_same(pipeline_id: str, recorded: Sequence[Endpoint], defined: Sequence[Endpoint]) -> None:
    """Raise `PipelineIdentityError` if a source or sink has moved. Performs no I/O."""
    if moved := find_moved(recorded, defined):
        differences = "; ".join(map(str, moved))
        raise PipelineIdentityError(
            f"This is not pipeline {pipeline_id} as this database knows it: {differences}. Nothing was started, and "
            "its state and tables are untouched. If this is another pipeline, give it a name of its own, or a database "
            "of its own (TIDEGATE_DATABASE_URL). If it was moved on purpose, confirm that once with `tidegate relocate "
            f"{pipeline_id}`."
        )


def stored_elsewhere(pipeline_id: str, metadata_path: str, url: str) -> PipelineIdentityError:
    """Return the error to raise if the latest completed checkpoint is not on this process's checkpoint storage."""
    return PipelineIdentityError(
        f"The latest completed checkpoint of pipeline {pipeline_id} is recorded as {metadata_path}, which is not on "
        f"the checkpoint storage of this process ({url}). Nothing was started, and nothing was changed. If this is "
        "another project, give its pipeline a name of its own, or a database of its own (TIDEGATE_DATABASE_URL). "
        "Otherwise set TIDEGATE_STORAGE, or TIDEGATE_HOME, to the place of the pipeline's state, or put it back."
    )


def require_not_lost(pipeline_id: str, paths: Iterable[str], url: str) -> None:
    """Raise `PipelineIdentityError` if one of the `paths` is the marker of a completed checkpoint. They lie on the
    checkpoint storage of a pipeline without a checkpoint in the database. Performs no I/O."""
    completed = [path for path in paths if marked_by(path) is not None]
    if completed:
        raise PipelineIdentityError(
            f"This database knows no checkpoint of pipeline {pipeline_id}, but {len(completed)} completed ones are on "
            f"its checkpoint storage ({url}). Nothing was started, and nothing was changed: the pipeline would read "
            "rows again that its tables show already. If the database was lost, `tidegate recover "
            f"{pipeline_id}` brings them back. If it is another one, set TIDEGATE_DATABASE_URL. To begin again, give "
            "the pipeline another name, or another checkpoint storage (TIDEGATE_STORAGE)."
        )


def require_at_rest(
    pipeline_id: str, in_progress: Sequence[CheckpointRecord], retained: Sequence[CheckpointRecord]
) -> None:
    """Check that no rows are staged in a place that a sink is about to leave. Raises `PipelineStatusError`. Performs no
    I/O."""
    if in_progress:
        raise PipelineStatusError(
            f"Pipeline {pipeline_id} cannot be relocated while checkpoint {in_progress[0].checkpoint_id} is in "
            f"progress. Nothing was changed. Let it end, or abort it with `tidegate suspend {pipeline_id}`, then "
            "repeat."
        )
    if unnotified := choose_unnotified(retained):
        raise PipelineStatusError(
            f"Pipeline {pipeline_id} cannot be relocated: checkpoint {unnotified[0].checkpoint_id} has completed, and "
            "its rows are staged in the old places of its sinks. Nothing was changed. Run the notify step with the old "
            "definition, then repeat."
        )
