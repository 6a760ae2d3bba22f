"""The function over state of a declared join that emits each of its results once."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.pipeline.joins import CHECKPOINT
from tidegate.pipeline.update import Update
from tidegate.spark.driver.hashing import quoted
from tidegate.spark.driver.join_columns import LEFT, RIGHT, ROWS, VERSIONS, JoinColumns, matching, packed, unpacked
from tidegate.spark.driver.updated_joins import updated


def joined(columns: JoinColumns, left: DataFrame, right: DataFrame, state: DataFrame, small: bool = False) -> Update:
    """Return the results of new rows, given the kept rows. As in SQL, a null key matches nothing. If the input is
    `small`, one Spark task takes all of it, because an exchange by key takes longer than the computation itself."""
    if columns.join.row_key:
        return updated(columns, left, right, state)
    met = _met(columns, left, right, state, small)
    pairs, kept = (_all if columns.join.by is None else _newest if columns.join.as_of is None else _as_of)(columns)
    matches = matching(columns.key)
    keys = [F.col(quoted(name)) for name in columns.key]
    unmatched = _pairs(F.col("new_left"), _no_match()) if columns.join.how == "left" else F.array()
    exploded = met.select(*keys, F.explode(F.when(matches, pairs).otherwise(unmatched)).alias("pair"))
    rows = exploded.select(
        *keys,
        *(unpacked(F.col("pair.l"), at, field) for at, field in enumerate(columns.left)),
        *(unpacked(F.col("pair.r"), at, field) for at, field in enumerate(columns.right) if field in columns.shown),
    )
    # With versions, rows of the left side leave no state.
    changed = matches if columns.join.as_of is None else matches & (F.size("new_right") > 0)
    upserts = met.where(changed).select(*keys, *(F.to_json(rows).alias(name) for name, rows in kept.items()))
    return Update(state=upserts, rows=rows)


def _met(columns: JoinColumns, left: DataFrame, right: DataFrame, state: DataFrame, small: bool) -> DataFrame:
    """Return the kept and the new rows of each key, as texts."""
    keys = [F.col(quoted(name)) for name in columns.key]
    *lefts, rights = columns.sides
    old_left = F.from_json(lefts[0], ROWS) if lefts else _none()
    old_right = F.from_json(rights, ROWS)
    parts = [
        state.select(*keys, old_left.alias("old_left"), old_right.alias("old_right")),
        left.select(*keys, packed(columns.left).alias("new_left")),
        right.select(*keys, packed(columns.right).alias("new_right")),
    ]
    together = parts[0].unionByName(parts[1], allowMissingColumns=True).unionByName(parts[2], allowMissingColumns=True)
    sides = ("old_left", "new_left", "old_right", "new_right")
    # Sorted, because the order of arrival differs each time.
    collected = (F.sort_array(F.flatten(F.collect_list(side))).alias(side) for side in sides)
    return (together.coalesce(1) if small else together).groupBy(*keys).agg(*collected)


def _all(columns: JoinColumns) -> tuple[Column, dict[str, Column]]:
    """Return every pair once, when its later row arrives, and the rows to keep."""
    lefts, rights = F.concat("old_left", "new_left"), F.concat("old_right", "new_right")
    pairs = F.concat(_pairs(F.col("new_left"), rights), _pairs(F.col("old_left"), F.col("new_right")))
    return pairs, {LEFT: lefts, RIGHT: rights}


def _newest(columns: JoinColumns) -> tuple[Column, dict[str, Column]]:
    """Return each row of the left side once, with the row of the right side selected then, and the rows to keep."""
    best = columns.latest(F.concat("old_right", "new_right"))
    rights = F.when(best.isNotNull(), F.array(best)).otherwise(_none())
    if columns.join.how == "left":
        matched = F.when(best.isNotNull(), rights).otherwise(_no_match())
        return _pairs(F.col("new_left"), matched), {LEFT: _none(), RIGHT: rights}
    lefts = F.concat("old_left", "new_left")
    return _pairs(lefts, rights), {LEFT: F.when(best.isNull(), lefts).otherwise(_none()), RIGHT: rights}


def _as_of(columns: JoinColumns) -> tuple[Column, dict[str, Column]]:
    """Return each row of the left side once, with the latest version read or the version valid at its time, and the
    rows to keep."""
    rights = F.concat("old_right", "new_right")
    if columns.join.as_of == CHECKPOINT:
        best = columns.latest(rights)
        pairs = F.transform("new_left", lambda left: F.struct(left.alias("l"), best.alias("r")))
        kept = F.when(best.isNull(), _none()).otherwise(F.array(best))
    else:

        def valid_then(left: Column) -> Column:
            return columns.latest(F.filter(rights, lambda row: columns.by(row) <= columns.at(left)))

        pairs = F.transform("new_left", lambda left: F.struct(left.alias("l"), valid_then(left).alias("r")))
        kept = rights
    if columns.join.how == "inner":
        pairs = F.filter(pairs, lambda pair: pair["r"].isNotNull())
    return pairs, {VERSIONS: kept}


def _pairs(lefts: Column, rights: Column) -> Column:
    def with_all(left: Column) -> Column:
        return F.transform(rights, lambda right: F.struct(left.alias("l"), right.alias("r")))

    return F.flatten(F.transform(lefts, with_all))


def _none() -> Column:
    return F.array().cast(ROWS)


def _no_match() -> Column:
    """Return the right rows for a left row without a match."""
    return F.array(F.lit(None).cast("array<string>"))
