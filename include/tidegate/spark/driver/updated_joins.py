"""The function over state of a declared join whose results are updated when either side changes.

Each result goes to a table by the row key of the left side. Its update with the largest `ORDER` counts; `ORDER` is the
number of updates of the key's results so far.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate.pipeline.tables import ORDER
from tidegate.pipeline.update import Update
from tidegate.ports.versioned_sources import CHANGE, DELETE, UPDATE
from tidegate.spark.driver.hashing import quoted
from tidegate.spark.driver.join_columns import LEFT, ROWS, UPDATES, JoinColumns, matching, packed, unpacked

_KEY = "_met"


def updated(columns: JoinColumns, left: DataFrame, right: DataFrame, state: DataFrame) -> Update:
    """Return the results of new left rows, and of all left rows of keys with a new right row."""
    keys = [F.col(quoted(name)) for name in columns.key]
    lefts, rights = _lefts(columns, left, state), _rights(columns, right, state)
    together = lefts.unionByName(rights, allowMissingColumns=True).groupBy(*keys)
    met = together.agg(
        F.sort_array(F.flatten(F.collect_list("lefts"))).alias("lefts"),
        F.flatten(F.collect_list("rights")).alias("rights"),
        F.coalesce(F.max("has_changed"), F.lit(False)).alias("has_changed"),
        (F.coalesce(F.max(UPDATES), F.lit(0)) + 1).cast("bigint").alias(UPDATES),
    )
    met = met.withColumn("best", columns.latest(F.col("rights")))
    matches, best = matching(columns.key), F.col("best")
    shown = met.select(*keys, "best", "has_changed", UPDATES, F.explode("lefts").alias("left"))
    is_known = ~F.col("left.is_new")
    is_result = best.isNotNull() if columns.join.how == "inner" else F.lit(True)
    due = F.col("left.is_new") | (F.col("has_changed") & matches)
    emitted = shown.where(due & (is_result | is_known | F.col("left.was_there"))).select(
        *keys,
        *(unpacked(F.col("left.row"), at, field) for at, field in enumerate(columns.left)),
        *(unpacked(best, at, field) for at, field in enumerate(columns.right) if field in columns.shown),
        F.when(is_result, UPDATE).otherwise(DELETE).alias(CHANGE),
        F.col(UPDATES).alias(ORDER),
    )
    kept = (F.transform("lefts", lambda entry: entry["row"]), F.when(best.isNotNull(), F.array(best)))
    rows = (F.to_json(F.coalesce(side, F.array().cast(ROWS))) for side in kept)
    named = (text.alias(name) for text, name in zip(rows, columns.sides, strict=True))
    return Update(state=met.where(matches).select(*keys, *named, UPDATES), rows=emitted)


def _lefts(columns: JoinColumns, left: DataFrame, state: DataFrame) -> DataFrame:
    """Return the known and the new left rows of each key, one for each row key, preferring the new one."""
    keys = [F.col(quoted(name)) for name in columns.key]
    known = state.select(*keys, F.explode(F.from_json(LEFT, ROWS)).alias("row"), F.lit(False).alias("is_new"))
    came = left.select(*keys, packed(columns.left)[0].alias("row"), F.lit(True).alias("is_new"))
    names = [field.name for field in columns.left]
    row_key = F.array(*(F.col("row")[names.index(name)] for name in columns.join.row_key if name in names))
    one = known.unionAll(came).groupBy(*keys, row_key.alias(_KEY))
    best = one.agg(
        F.max(F.struct("is_new", "row")).alias("best"),
        F.min("is_new").alias("all_new"),
    )
    entry = F.struct(
        F.col("best.row").alias("row"), F.col("best.is_new").alias("is_new"), (~F.col("all_new")).alias("was_there")
    )
    return best.groupBy(*keys).agg(F.collect_list(entry).alias("lefts"))


def _rights(columns: JoinColumns, right: DataFrame, state: DataFrame) -> DataFrame:
    """Return the right rows of each key, whether any are new, and the number of updates of the results."""
    keys = [F.col(quoted(name)) for name in columns.key]
    known = state.select(
        *keys, F.from_json(columns.sides[1], ROWS).alias("rights"), F.lit(False).alias("has_changed"), F.col(UPDATES)
    )
    came = right.select(*keys, packed(columns.right).alias("rights"), F.lit(True).alias("has_changed"))
    one = known.unionByName(came, allowMissingColumns=True).groupBy(*keys)
    return one.agg(
        F.flatten(F.collect_list("rights")).alias("rights"),
        F.max("has_changed").alias("has_changed"),
        F.max(UPDATES).alias(UPDATES),
    )
