"""`CheckpointError`s of Spark tasks, which travel as JSON inside a message because nothing else of them survives the
way through Java (classic) or gRPC (Connect)."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.protocol.facts import errors
from tidegate.protocol.facts.errors import CheckpointError

_OPEN, _CLOSE = "<<tidegate-error:", ":tidegate-error>>"
_MARKED = re.compile(re.escape(_OPEN) + r"(.*?)" + re.escape(_CLOSE), re.DOTALL)


@contextmanager
def carried_to_driver() -> Iterator[None]:
    """Wrap a partition function, so that its `CheckpointError` reaches the driver whole. Spark still retries the
    task."""
    try:
        yield
    except CheckpointError as error:
        content = json.dumps({"class": type(error).__name__, "message": str(error)})
        raise RuntimeError(f"{_OPEN}{content.encode().hex()}{_CLOSE}") from error


def carried_from_task(text: str) -> CheckpointError | None:
    """Return the error that `carried_to_driver` put into a Spark message."""
    marked = _MARKED.search(text)
    if marked is None:
        return None
    content = json.loads(bytes.fromhex(marked[1]))
    kind = getattr(errors, content["class"], CheckpointError)
    return kind(content["message"]) if issubclass(kind, CheckpointError) else CheckpointError(content["message"])
