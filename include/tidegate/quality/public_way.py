"""Validation through Great Expectations' documented API: a data source, an asset, a batch of one DataFrame, a suite.

Great Expectations counts and samples each expectation in Spark jobs of its own choice, where `one_pass` takes one job
for all counts.
"""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tidegate.quality.importing import open_context

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ONE_AT_A_TIME = Lock()


def validate_publicly(
    frame: "DataFrame", built: Sequence[Any], result_format: Mapping[str, Any]
) -> tuple[list[Any], int]:
    """Return Great Expectations' results in an order of its own, and the number of rows. It runs one suite at a time,
    because the data sources of a context are not safe for threads."""
    with _ONE_AT_A_TIME:
        context = open_context()
        from great_expectations import ExpectationSuite

        name = f"rows-{uuid4().hex}"
        source = context.data_sources.add_spark(name, persist=False)
        try:
            asset = source.add_dataframe_asset(name)
            batch = asset.add_batch_definition_whole_dataframe(name).get_batch({"dataframe": frame})
            result = batch.validate(ExpectationSuite(name, expectations=list(built)), result_format=dict(result_format))
        finally:
            context.data_sources.delete(name)
    return list(result.results), frame.count()
