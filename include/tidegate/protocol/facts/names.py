"""Names that are joined from parts: each has its text here and nowhere else, as it is stored and shown.

Where such a text is read back, a small type takes it apart; where it never is, a function composes it. The names of
files and directories are in `paths`; a subtask's is in `records`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class TargetKind(StrEnum):
    SINK = "sink"  # the rows that it staged
    STATE = "state"  # of a keyed operator, whole
    CHECK = "check"  # a query across the staged rows of several sinks


@dataclass(frozen=True, slots=True)
class Target:
    """What a verdict is about: `sink:NAME`, `state:NAME` or `check:NAME`."""

    kind: TargetKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Raises `ValueError`."""
        kind, _, name = text.partition(":")
        return cls(TargetKind(kind), name)


_SINK_OPERATOR = "-sink"


def operator_of_sink(sink: str) -> str:
    """The operator id of a sink. It is no legal name of a vertex, so that a sink may carry the name of the operator it
    delivers."""
    return f"{sink}{_SINK_OPERATOR}"


def sink_of_operator(operator_id: str) -> str:
    """The name of the sink that has this operator id."""
    return operator_id.removesuffix(_SINK_OPERATOR)


def is_sink(operator_id: str) -> bool:
    return operator_id.endswith(_SINK_OPERATOR)


#: Who can delete a file: the checkpoint storage, or the sink below whose root it was staged. The database makes the
#: same text from the columns of a handle. Or it lies in the directory of a canonical savepoint.
STORAGE = "storage"
STAGED_BY = "sink:"
SAVED_AT = "savepoint:"


def staged_by(operator_id: str) -> str:
    """The owner of what the sink with this operator id has staged."""
    return f"{STAGED_BY}{operator_id}"


def saved_at(location: str) -> str:
    """The owner of the files in the directory of a canonical savepoint."""
    return f"{SAVED_AT}{location}"


def location_of(owner: str) -> str | None:
    """The directory that `saved_at` names; None if the owner is another one."""
    return owner.removeprefix(SAVED_AT) if owner.startswith(SAVED_AT) else None


def request_of_import(checkpoint_id: int) -> str:
    """The request of a checkpoint that is recorded from a savepoint's directory: nobody repeats it."""
    return f"restore:{checkpoint_id}"


@dataclass(frozen=True, slots=True)
class Fork:
    """Where a pipeline was forked from: `fork:PIPELINE/ID`, and `/NAME` for a savepoint that has one. The request of
    its first checkpoint says so."""

    pipeline_id: str
    checkpoint_id: int
    savepoint: str | None = None

    def __str__(self) -> str:
        named = "" if self.savepoint is None else f"/{self.savepoint}"
        return f"{_FORK}{self.pipeline_id}/{self.checkpoint_id}{named}"

    @classmethod
    def parse(cls, request_id: str) -> "Fork | None":
        """None if the request is another one."""
        pipeline_id, _, rest = request_id.removeprefix(_FORK).partition("/")
        number, _, name = rest.partition("/")
        if not request_id.startswith(_FORK) or not (pipeline_id and number.isdecimal()):
            return None
        return cls(pipeline_id, int(number), name or None)

    def is_of(self, other: "Fork") -> bool:
        """Whether it began with the same, also if the savepoint was renamed since."""
        return (self.pipeline_id, self.checkpoint_id) == (other.pipeline_id, other.checkpoint_id)

    def said(self) -> str:
        """For a sentence: `PIPELINE, savepoint NAME`, or `PIPELINE, checkpoint ID`."""
        what = f"checkpoint {self.checkpoint_id}" if self.savepoint is None else f"savepoint {self.savepoint}"
        return f"{self.pipeline_id}, {what}"


_FORK = "fork:"


_HANDED_OVER = "asked:"


def handed_over(request_id: str) -> str:
    """The request of a checkpoint that a person asks for, and that the continuous region repeats until it is taken."""
    return f"{_HANDED_OVER}{request_id}"


def is_handed_over(request_id: str) -> bool:
    return request_id.startswith(_HANDED_OVER)


def request_of_region(attempt: int, number: int) -> str:
    """The request of a periodic checkpoint of a continuous region's attempt, which repeats it itself."""
    return f"{_OF_REGION}{attempt}:{number}"


def attempt_of_request(request_id: str) -> int | None:
    """The attempt of the region that has asked, if one has."""
    attempt, _, number = request_id.removeprefix(_OF_REGION).partition(":")
    is_one = request_id.startswith(_OF_REGION) and attempt.isdecimal() and number.isdecimal()
    return int(attempt) if is_one else None


_OF_REGION = "region:"


def is_of_process(request_id: str) -> bool:
    """Whether one process waits for its request and repeats it: a command or a program, no DAG run and no page."""
    return run_of_request(request_id) is None and not is_handed_over(request_id)


def requests_of_run(dag_id: str, run_id: str) -> str:
    """What the ids of all requests of one DAG run begin with."""
    return f"{dag_id}/{run_id}/"


def run_of_request(request_id: str) -> tuple[str, str] | None:
    """The DAG and the DAG run that have asked, if one has: behind `requests_of_run` stands when it was to run."""
    found = _OF_RUN.fullmatch(request_id)
    return None if found is None else (found["dag_id"], found["run_id"])


_OF_RUN = re.compile(r"(?P<dag_id>[\w.-]+)/(?P<run_id>.+)/[0-9]{8}T[0-9]{6}\.[0-9]{6}", re.DOTALL)


def run_id_of(request_id: str) -> str:
    """The DAG run that is started for a request of a page: asked for twice it is one. Performs no I/O."""
    return f"{_OF_PAGE}{request_id}"


def asked_by_run(run_id: str) -> str | None:
    """The request of a page that such a DAG run is of; None if its id is of another kind. Performs no I/O."""
    _, of_page, request_id = run_id.partition(_OF_PAGE)
    return request_id if of_page and run_id.startswith(_OF_PAGE) else None


_OF_PAGE = "tidegate__"
