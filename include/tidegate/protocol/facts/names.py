"""Names that are joined from parts, as they are stored and shown. Each is composed here and nowhere else.

A name that is read back has a small type that parses it. Any other has a function that composes it. The names of files
and directories are in `paths`, and that of a subtask is in `records`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class TargetKind(StrEnum):
    SINK = "sink"  # the rows that a sink staged
    STATE = "state"  # of a keyed operator, whole
    CHECK = "check"  # a query across the staged rows of several sinks


@dataclass(frozen=True, slots=True)
class Target:
    """The subject of a verdict: `sink:NAME`, `state:NAME` or `check:NAME`."""

    kind: TargetKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Parse the text. Raises `ValueError`."""
        kind, _, name = text.partition(":")
        return cls(TargetKind(kind), name)


_SINK_OPERATOR = "-sink"


def operator_of_sink(sink: str) -> str:
    """Return the operator id of a sink. It is no legal name of a vertex, so that a sink may have the same name as its
    operator."""
    return f"{sink}{_SINK_OPERATOR}"


def sink_of_operator(operator_id: str) -> str:
    """Return the name of the sink that has this operator id."""
    return operator_id.removesuffix(_SINK_OPERATOR)


def is_sink(operator_id: str) -> bool:
    return operator_id.endswith(_SINK_OPERATOR)


#: The owner of a file, which can delete it: the checkpoint storage, the sink below whose root it was staged, or the
#: directory of a canonical savepoint. The database makes the same text from the columns of a handle.
STORAGE = "storage"
STAGED_BY = "sink:"
SAVED_AT = "savepoint:"


def staged_by(operator_id: str) -> str:
    """Return the owner of the files that the sink with this operator id has staged."""
    return f"{STAGED_BY}{operator_id}"


def saved_at(location: str) -> str:
    """Return the owner of the files in the directory of a canonical savepoint."""
    return f"{SAVED_AT}{location}"


def location_of(owner: str) -> str | None:
    """Return the directory that `saved_at` names; None for another owner."""
    return owner.removeprefix(SAVED_AT) if owner.startswith(SAVED_AT) else None


def request_of_import(checkpoint_id: int) -> str:
    """Return the request of a checkpoint that is recorded from a savepoint's directory. It is never repeated."""
    return f"restore:{checkpoint_id}"


@dataclass(frozen=True, slots=True)
class Fork:
    """The origin of a forked pipeline: `fork:PIPELINE/ID`, with `/NAME` for a named savepoint. It is the request of the
    pipeline's first checkpoint."""

    pipeline_id: str
    checkpoint_id: int
    savepoint: str | None = None

    def __str__(self) -> str:
        named = "" if self.savepoint is None else f"/{self.savepoint}"
        return f"{_FORK}{self.pipeline_id}/{self.checkpoint_id}{named}"

    @classmethod
    def parse(cls, request_id: str) -> "Fork | None":
        """Parse a request; None if it is of another kind."""
        pipeline_id, _, rest = request_id.removeprefix(_FORK).partition("/")
        number, _, name = rest.partition("/")
        if not request_id.startswith(_FORK) or not (pipeline_id and number.isdecimal()):
            return None
        return cls(pipeline_id, int(number), name or None)

    def is_of(self, other: "Fork") -> bool:
        """Whether both have the same origin, also if the savepoint was renamed since."""
        return (self.pipeline_id, self.checkpoint_id) == (other.pipeline_id, other.checkpoint_id)

    def describe(self) -> str:
        """Return the words for a sentence: `PIPELINE, savepoint NAME`, or `PIPELINE, checkpoint ID`."""
        what = f"checkpoint {self.checkpoint_id}" if self.savepoint is None else f"savepoint {self.savepoint}"
        return f"{self.pipeline_id}, {what}"


_FORK = "fork:"


_HANDED_OVER = "asked:"


def handed_over(request_id: str) -> str:
    """Return the request of a checkpoint that a user requests, and that the continuous region repeats until it is
    taken."""
    return f"{_HANDED_OVER}{request_id}"


def is_handed_over(request_id: str) -> bool:
    return request_id.startswith(_HANDED_OVER)


def request_of_region(attempt: int, number: int) -> str:
    """Return the request of a periodic checkpoint of a continuous region's attempt, which repeats it itself."""
    return f"{_OF_REGION}{attempt}:{number}"


def attempt_of_request(request_id: str) -> int | None:
    """Return the attempt of the region that made the request; None if no region did."""
    attempt, _, number = request_id.removeprefix(_OF_REGION).partition(":")
    is_one = request_id.startswith(_OF_REGION) and attempt.isdecimal() and number.isdecimal()
    return int(attempt) if is_one else None


_OF_REGION = "region:"


def is_of_process(request_id: str) -> bool:
    """Whether one process waits for its request and repeats it: a command or a program, no DAG run and no page."""
    return run_of_request(request_id) is None and not is_handed_over(request_id)


def requests_of_run(dag_id: str, run_id: str) -> str:
    """Return the prefix of the ids of all requests of one DAG run."""
    return f"{dag_id}/{run_id}/"


def run_of_request(request_id: str) -> tuple[str, str] | None:
    """Return the DAG and the DAG run that made the request; None if no DAG run did. The id is `requests_of_run` and the
    scheduled time."""
    found = _OF_RUN.fullmatch(request_id)
    return None if found is None else (found["dag_id"], found["run_id"])


_OF_RUN = re.compile(r"(?P<dag_id>[\w.-]+)/(?P<run_id>.+)/[0-9]{8}T[0-9]{6}\.[0-9]{6}", re.DOTALL)


def run_id_of(request_id: str) -> str:
    """Return the id of the DAG run for a request of a page, so that a repeated request starts no second one. Performs
    no I/O."""
    return f"{_OF_PAGE}{request_id}"


def asked_by_run(run_id: str) -> str | None:
    """Return the request of a page that started this DAG run; None if its id is of another kind. Performs no I/O."""
    _, of_page, request_id = run_id.partition(_OF_PAGE)
    return request_id if of_page and run_id.startswith(_OF_PAGE) else None


_OF_PAGE = "tidegate__"
