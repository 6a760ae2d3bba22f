"""An epoch of declared aggregates whose rows expire beside that of the same ones whose rows live for ever.

From the call of the region until every subtask has acknowledged; the two take turns. No row expires meanwhile: what is
measured is the column more, and that each row found is judged.
"""

from pathlib import Path

from conditions import PARALLELISM
from taking_turns import source_of, take_turns

from tidegate import Pipeline, count


def pipeline_of(root: Path, expires: bool) -> Pipeline:
    pipeline = Pipeline("expiring" if expires else "lasting", PARALLELISM)
    rows = pipeline.source("rows", source_of(root))
    rows.key_by("key").aggregate("counts", n=count(), ttl="30 d" if expires else None)
    return pipeline


if __name__ == "__main__":
    take_turns(pipeline_of)
