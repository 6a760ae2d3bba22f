"""The changes from one version of a snapshot source to the next: its rows, compared by key, as Spark reads them.

A version is read as a whole, and only once, however many versions follow one another.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from tidegate.ports.versioned_sources import CHANGE, DELETE, INSERT, UPDATE, VALID_FROM
from tidegate.protocol.facts.errors import MalformedRowsError, SourceChangedError
from tidegate.sources.read_errors import AS_BEFORE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_AT, _ROW, _HELD = "_version", "_row", "_held"


class VersionCopy(NamedTuple):
    """The copy of a version on checkpoint storage. `file` is the original, `at` the time from which it is valid, in
    microseconds."""

    path: str
    size: int
    file: str
    at: int


class Compared(NamedTuple):
    """The comparison of a version with the one before: how many rows that one had, how many of its keys are gone, and
    how many keys of the version have several rows."""

    had: int
    gone: int
    twice: int


def changes(
    rows_of: Callable[[VersionCopy], "DataFrame"],
    key: Sequence[str],
    before: Sequence[VersionCopy],
    versions: Sequence[VersionCopy],
) -> "DataFrame":
    """Return the columns of the rows, `CHANGE` and `VALID_FROM`, with a row for each key that differs from the version
    before. No key may occur twice in a version."""
    from pyspark.sql import functions as F

    rows, count = _numbered(rows_of, before, versions), len(versions)
    names = [name for name in rows.columns if name != _AT]
    entry = F.struct(F.col(_AT), F.struct(*map(_column, names)).alias(_ROW))
    held = rows.groupBy(*map(_column, key)).agg(F.map_from_entries(F.collect_list(entry)).alias(_HELD))
    steps = F.transform(
        F.sequence(F.lit(1), F.lit(count)),
        lambda at: F.struct(
            at.alias("at"), F.try_element_at(_HELD, at - 1).alias("old"), F.try_element_at(_HELD, at).alias("new")
        ),
    )
    different = F.filter(steps, lambda step: ~step["old"].eqNullSafe(step["new"]))
    found = held.select(F.explode(different).alias("step")).select("step.*")
    times = F.array(*(F.lit(version.at) for version in versions))
    return found.select(
        *(F.coalesce(F.col("new"), F.col("old")).getField(name).alias(name) for name in names),
        F.when(F.col("old").isNull(), INSERT).when(F.col("new").isNull(), DELETE).otherwise(UPDATE).alias(CHANGE),
        F.timestamp_micros(F.element_at(times, F.col("at"))).alias(VALID_FROM),
    )


def compared(
    rows_of: Callable[[VersionCopy], "DataFrame"],
    key: Sequence[str],
    before: Sequence[VersionCopy],
    versions: Sequence[VersionCopy],
) -> Mapping[VersionCopy, Compared]:
    """Count the changes of each version. Runs one Spark job."""
    from pyspark.sql import functions as F

    rows, count = _numbered(rows_of, before, versions), len(versions)
    held = rows.groupBy(*map(_column, key)).agg(F.collect_list(_AT).alias(_HELD))

    def step(at: "Column") -> "Column":
        had, there = F.array_contains(_HELD, at - 1), F.array_contains(_HELD, at)
        twice = F.size(F.filter(_HELD, lambda each: each == at)) > 1
        return F.struct(at.alias("at"), had.alias("had"), (had & ~there).alias("gone"), twice.alias("twice"))

    steps = held.select(F.explode(F.transform(F.sequence(F.lit(1), F.lit(count)), step)).alias("step")).select("step.*")
    sums = steps.groupBy("at").agg(*(F.count_if(name).alias(name) for name in Compared._fields)).collect()
    return {versions[row["at"] - 1]: Compared(row["had"], row["gone"], row["twice"]) for row in sums}


def require_plausible(where: str, key: Sequence[str], max_deleted: float, version: str, found: Compared) -> None:
    """Raise `MalformedRowsError` for a key that occurs twice, `SourceChangedError` if too many rows are gone."""
    if found.twice:
        raise MalformedRowsError(
            f"{version} has {found.twice} keys with more than one row. A version has one row for each "
            f"{', '.join(key)}, which is the key of {where}. {AS_BEFORE}Deliver the file without them, or name a key "
            "that identifies its rows, then run again."
        )
    if found.gone > max_deleted * found.had:
        raise SourceChangedError(
            f"{version} lacks {found.gone} of the {found.had} rows that the version before it had, so they would be "
            f"deleted, and {where} allows {max_deleted:.0%} of them (max_deleted={max_deleted}). {AS_BEFORE}If the "
            "file is not whole, deliver it again. If it is right, allow more with max_deleted=1. Then run again."
        )


def _numbered(
    rows_of: Callable[[VersionCopy], "DataFrame"], before: Sequence[VersionCopy], versions: Sequence[VersionCopy]
) -> "DataFrame":
    """Return the rows of all versions, numbered from 1; 0 is the one before."""
    from pyspark.sql import functions as F

    numbered = [*((0, version) for version in before), *enumerate(versions, 1)]
    frames = [rows_of(version).withColumn(_AT, F.lit(at)) for at, version in numbered]
    return reduce(lambda one, more: one.unionAll(more), frames)


def _column(name: str) -> "Column":
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")
