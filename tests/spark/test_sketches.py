"""Sketches on Spark: a run that is killed and restored has the rows of one that is not, within the stated error."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from continuous_checkpoints import Running
from dying_checkpoints import DiedError, attempt_until, finalize, rescaled
from spark_checkpoints import Checkpoints, Landing

from sketches.visits import SLOW, VISITS, visits_pipeline
from tidegate import FileSource, Pipeline

pytestmark = pytest.mark.spark

Land = Callable[[str], Landing]
PAGES, COUNTRIES = np.array(["home", "cart", "help", "shop"]), np.array(["CH", "DE", "FR", "IT", "NL", "SE"])


def visits(landing: Landing, root: Path, parallelism: int = 2) -> Pipeline:
    return visits_pipeline(FileSource(str(landing.path), format="parquet", schema=VISITS), root / "tables", parallelism)


def deliver(landing: Landing, seed: int, rows: int = 12_000) -> None:
    random = np.random.default_rng(seed)
    landing.put(
        page=PAGES[random.integers(0, 4, rows)].tolist(),
        visitor=random.integers(0, 20_000, rows).tolist(),
        country=COUNTRIES[np.minimum(random.geometric(0.4, rows), 6) - 1].tolist(),
        ms=random.lognormal(size=rows).tolist(),
    )


def landed(landing: Landing) -> duckdb.DuckDBPyRelation:
    return duckdb.read_parquet(f"{landing.path}/*.parquet")


def exact(landing: Landing) -> dict[str, tuple[Any, ...]]:
    shown = landed(landing).aggregate("page, count(*), count(DISTINCT visitor), list(ms)").fetchall()
    return {page: (n, visitors, np.sort(times)) for page, n, visitors, times in shown}


def check(rows: list[tuple[Any, ...]], landing: Landing) -> None:
    """Within what the documentation states."""
    expected = exact(landing)
    assert {row[0] for row in rows} == set(expected)
    for page, visits, visitors, times, countries in rows:
        n, distinct, sorted_times = expected[page]
        assert visits == n
        assert abs(visitors / distinct - 1) < 3 * 0.02
        ranks = np.searchsorted(sorted_times, times, side="right") / n
        assert np.abs(ranks - [0.5, 0.99]).max() < 0.0133
        of_page = landed(landing).filter(f"page = '{page}'").aggregate("country, count(*) AS visits")
        top = of_page.order("visits DESC, country").limit(3).fetchall()
        assert [tuple(each) for each in countries] == top, "so few are counted exactly"


def test_a_run_that_is_killed_and_restored_has_the_rows_and_the_state_of_one_that_is_not(
    spark: Any, landing: Land, tmp_path: Path
) -> None:
    """Attempts die before and after reports, the parallelism changes, and the last checkpoint is gone back on."""
    visited = landing("visits")
    straight = Checkpoints(visits(visited, tmp_path / "straight"), spark, tmp_path / "straight")
    root = tmp_path / "killed"
    killed, deaths = Checkpoints(visits(visited, root), spark, root), 0
    for number, parallelism in enumerate((2, 3, 1)):
        deliver(visited, number)
        straight.trigger()
        straight.attempt_once()
        finalize(straight)
        killed = rescaled(killed, visits(visited, root, parallelism)) if number else killed
        before = dict(killed.completed)
        for again in range(1 + (number == 2)):
            killed.completed = before  # the second time: restored to the checkpoint before
            killed.trigger()
            try:
                attempt_until(killed, number + again, before=number % 2 == 0)
            except DiedError:
                deaths += 1
            if set(killed.acknowledged) != set(killed.graph.subtasks):
                killed.attempt_once()
            finalize(killed)
        for target in ("state:pages", "state:slow", "sink:pages", "sink:slow"):
            assert killed.rows(target) == straight.rows(target), target
    assert deaths >= 3
    rows = straight.rows("state:pages")
    check([tuple(row) for row in rows], visited)
    slow = landed(visited).filter(SLOW).aggregate("country, count(DISTINCT page)").fetchall()
    assert {(country, pages) for country, pages, _ in straight.rows("state:slow")} == set(slow)
    assert_readable(spark, straight, rows)


def assert_readable(spark: Any, checkpoints: Checkpoints, rows: list[tuple[Any, ...]]) -> None:
    """Spark's own functions answer from the state what is shown of it. The newest runs have all keys."""
    newest = {
        id_: [h for h in snapshot.handles if h.created_by == checkpoints.checkpoint_id]
        for id_, snapshot in checkpoints.completed.items()
        if id_.operator_id == "pages"
    }
    files = [str(checkpoints.root / "checkpoints" / h.path) for handles in newest.values() for h in handles]
    items = "named_struct('sketch', _sketch_countries, 'maxItemsTracked', 1000, 'itemDataType', cast(null as string), "
    found = spark.read.parquet(*files).selectExpr(
        "page",
        "visits",
        "hll_sketch_estimate(_sketch_visitors)",
        "array(kll_sketch_get_quantile_double(_sketch_ms, 0.5D), kll_sketch_get_quantile_double(_sketch_ms, 0.99D))",
        f"approx_top_k_estimate({items} 'itemDataTypeDDL', 'item string not null'), 3)",
    )
    assert sorted((tuple(row) for row in found.collect()), key=repr) == rows


def test_a_continuous_run_that_is_killed_counts_the_same_and_keeps_to_its_error(
    spark: Any, landing: Land, tmp_path: Path
) -> None:
    visited = landing("visits")
    running = Running(visits(visited, tmp_path), spark, tmp_path)
    for number, fate in enumerate(["completes", "is killed", "is killed", "completes"]):
        deliver(visited, 10 + number, 4_000)
        running.begin()
        running.round()
        if fate == "completes":
            running.until_acknowledged()
            running.complete()
        running.restart()
    running.until_idle()
    running.take()
    rows = running.rows("state:pages")
    check(rows, visited)
    once = Checkpoints(visits(visited, tmp_path / "once"), spark, tmp_path / "once")
    once.take()
    at_once = {page: (visitors, countries) for page, _, visitors, _, countries in once.rows("state:pages")}
    assert {page: (visitors, countries) for page, _, visitors, _, countries in rows} == at_once
