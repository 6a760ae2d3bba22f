"""The owner of a place, recorded in its mark. A place is a sink's directory or a pipeline's part of a checkpoint
storage.

Two pipelines in one place would take each other's files for leftovers of their own, and two databases would give the
same numbers to different checkpoints. So a place has one owner: the pipeline that marked it first, in one database. A
place that the database has on record and that has lost its mark is marked by the pipeline that begins there next.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from tidegate.protocol.facts.errors import PipelineIdentityError
from tidegate.protocol.steps.refusal import Refusal

#: The name of the mark in the directory of a sink. Readers skip it.
MARK = "_owner"


def storage_mark(pipeline_id: str) -> str:
    """Return the path of the mark of a pipeline's part of a checkpoint storage. No pipeline's name begins so."""
    return f"_owners/{pipeline_id}"


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a directory.

    Attributes:
        pipeline: The pipeline.
        sink: The sink; empty for a checkpoint storage.
        database: The database that has the pipeline.
    """

    pipeline: str
    sink: str
    database: str

    def to_json(self) -> bytes:
        return (json.dumps(asdict(self)) + "\n").encode()

    @classmethod
    def parse(cls, content: bytes) -> "Owner":
        """Parse a mark. Raises `ValueError` if it is none."""
        try:
            mark = json.loads(content)
            return cls(*(str(mark[name]) for name in ("pipeline", "sink", "database")))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError("it is no mark of an owner") from error


class Standing(StrEnum):
    FREE = "free"  # no mark
    OWN = "own"
    FORMER_NAME = "former name"  # of the same pipeline, by a name that none of its sinks has any more
    OTHER_DATABASE = "other database"  # a pipeline of the same name, in another database
    OTHER_SINK = "other sink"  # of another sink of the same pipeline
    OTHER_PIPELINE = "other pipeline"


#: Places in which nothing may be written or deleted.
FOREIGN = frozenset({Standing.OTHER_DATABASE, Standing.OTHER_SINK, Standing.OTHER_PIPELINE})


def stand(owner: Owner | None, me: Owner, sinks: Collection[str]) -> Standing:
    """Classify a place with this mark for `me`, whose pipeline has these sinks. Performs no I/O."""
    if owner is None:
        return Standing.FREE
    if owner.pipeline != me.pipeline:
        return Standing.OTHER_PIPELINE
    if owner.database != me.database:
        return Standing.OTHER_DATABASE
    if owner.sink == me.sink:
        return Standing.OWN
    return Standing.OTHER_SINK if owner.sink in sinks else Standing.FORMER_NAME


@dataclass(frozen=True, slots=True)
class Place:
    """The state of a place to which the pipeline of `me` would write. `is_recorded`: the database knows that the sink
    is there. `is_used`: the place has rows or files. `operator_id` is empty for the checkpoint storage."""

    me: Owner
    where: str
    operator_id: str
    owner: Owner | None
    standing: Standing
    is_recorded: bool
    is_used: bool

    @property
    def what(self) -> str:
        return f"The output of sink {self.me.sink!r}" if self.me.sink else "The checkpoint storage"

    def __str__(self) -> str:
        """Return the phrase that the user confirms."""
        if self.standing is Standing.OTHER_SINK:
            whose = f"was that of sink {self.owner.sink!r}" if self.owner else ""
        elif self.owner is None:
            whose = "has no owner, and is taken over with its content"
        else:
            other = " in another database" if self.standing is Standing.OTHER_DATABASE else ""
            whose = f"belongs to pipeline {self.owner.pipeline}{other}, and is taken over with its content"
        return f"the{self.what[3:]} ({self.where}) {whose}"


def refused_places(places: Sequence[Place], regains: bool = False) -> list[Refusal]:
    """Return the reasons why a pipeline may not begin in some of these places. `regains`: it is recovered into a
    database that does not know it, so marks with its name are its own. Performs no I/O."""
    refusals = []
    for place in places:
        refusal = _refused(place, regains)
        if refusal is not None:
            refusals.append(refusal)
    return refusals


def _refused(place: Place, regains: bool) -> Refusal | None:
    name, owner = place.me.pipeline, place.owner
    where = f"{place.what} ({place.where})"
    elsewhere = "set TIDEGATE_STORAGE to another place"
    if place.me.sink:
        elsewhere = "give the sink another directory, table or topic"
    take = f"`tidegate relocate {name} --take-over` makes it this pipeline's"
    match place.standing:
        case Standing.OTHER_PIPELINE:
            assert owner is not None
            return Refusal(
                place.operator_id,
                f"{where} belongs to pipeline {owner.pipeline}, according to the owner's mark there.",
                f"Two pipelines would mix their rows and delete each other's files: {elsewhere}. If {owner.pipeline} "
                f"was only renamed, give it its name back. If it will never write there again, {take}.",
            )
        case Standing.OTHER_DATABASE if not regains:
            return Refusal(
                place.operator_id,
                f"{where} belongs to the pipeline {name} of another database.",
                f"Set TIDEGATE_DATABASE_URL to that one. If it was lost, `tidegate recover {name}` goes on from the "
                f"checkpoint storage. To begin again, {elsewhere}. If the other one will never write there again, "
                f"{take}.",
            )
        case Standing.OTHER_SINK:
            assert owner is not None
            return Refusal(
                place.operator_id,
                f"{where} belongs to sink {owner.sink!r} of the same pipeline.",
                "Give the sink a directory, table or topic of its own. If the two have changed places, confirm it "
                f"with `tidegate relocate {name}`.",
            )
        case Standing.FREE if place.is_used and not place.is_recorded and not regains:
            return Refusal(
                place.operator_id,
                f"{where} is not empty, and this database does not know that pipeline {name} has written there.",
                "Its readers would see the old content together with the new rows: give the sink another directory, "
                "table or topic, or move the old content away. If the pipeline or its sink was renamed, give it its "
                "name back, or confirm "
                f"a move with `tidegate relocate {name}`. If the database was lost, `tidegate recover {name}` goes on "
                f"from the checkpoint storage. To add to the old content, {take}.",
            )
    return None


def require_own_places(pipeline_id: str, refusals: Sequence[Refusal]) -> None:
    """Raise `PipelineIdentityError` with all refusals, if there are any. Performs no I/O."""
    if refusals:
        why = " ".join(dict.fromkeys(refusal.why for refusal in refusals))
        ways = " ".join(dict.fromkeys(refusal.way_out for refusal in refusals))
        raise PipelineIdentityError(
            f"{why} Nothing of pipeline {pipeline_id} was started, and nothing there was changed. {ways}"
        )


def to_mark(places: Sequence[Place], regains: bool = False) -> list[Place]:
    """Choose the places that a beginning pipeline marks as its own. Performs no I/O."""
    taken = {Standing.FREE, Standing.FORMER_NAME} | ({Standing.OTHER_DATABASE} if regains else set())
    return [place for place in places if place.standing in taken]


def to_take_over(places: Sequence[Place]) -> list[Place]:
    """Choose the places that become the pipeline's only if the user confirms it. Performs no I/O."""
    others = (Standing.OTHER_PIPELINE, Standing.OTHER_DATABASE)
    return [each for each in places if each.standing in others or (each.is_used and not each.is_recorded)]


def to_swap(places: Sequence[Place]) -> list[Place]:
    """Choose the directories of other sinks of the same pipeline, if all of them have changed places. Performs no
    I/O."""
    swapped = [each for each in places if each.standing is Standing.OTHER_SINK]
    left = {each.owner.sink for each in swapped if each.owner is not None}
    return swapped if left == {each.me.sink for each in swapped} else []
