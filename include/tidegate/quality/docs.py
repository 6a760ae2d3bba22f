"""The files of reports: `<docs>/<pipeline>/chk-<id>/index.html`, written atomically, the oldest removed.

`page` decides the content of a page.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from tidegate.protocol.facts.paths import checkpoint_id_of, checkpoint_name
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.quality.page import Section, render

PAGE = "index.html"
# The number of reports kept for each pipeline, those of failed checkpoints included.
KEPT = 200


def build_docs(
    docs: Path, checkpoint: CheckpointRecord, sections: Sequence[Section], hold_for: timedelta | None = None
) -> str:
    """Write the checkpoint's page, replacing an earlier one, and return its path relative to `docs`; see `render`.

    Remove the pipeline's reports beyond the `KEPT` newest. Raise `OSError` if a file cannot be written.
    """
    path = Path(checkpoint.pipeline_id) / checkpoint_name(checkpoint.checkpoint_id) / PAGE
    _replace(docs / path, render(checkpoint, sections, hold_for))
    remove_old_docs(docs, checkpoint.pipeline_id, KEPT)
    return path.as_posix()


def remove_old_docs(docs: Path, pipeline_id: str, keep: int) -> list[int]:
    """Remove a pipeline's reports except those of its `keep` newest checkpoints. Return the removed ids."""
    found = [checkpoint_id_of(path.name) for path in (docs / pipeline_id).iterdir()]
    ids = sorted((id_ for id_ in found if id_ is not None), reverse=True)[keep:]
    for checkpoint_id in ids:
        shutil.rmtree(docs / pipeline_id / checkpoint_name(checkpoint_id), ignore_errors=True)
    return ids


def _replace(target: Path, content: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        # With mkstemp's mode, an API server that runs as another user could not read it.
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
