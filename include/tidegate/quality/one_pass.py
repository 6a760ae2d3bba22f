"""Great Expectations' execution engine for Spark, asked for its metrics in an order that takes fewer Spark jobs.

Great Expectations resolves metrics in rounds, as far as their dependencies are known, and each round runs a Spark job
for what it can count together. Here such counts wait until nothing else can be resolved: then those of all expectations
of a suite are known, and one job counts them. Only the number of rows must be known before any of them. Where it has
been reported, that number is taken until it is counted with the others. Samples of failing rows take a job each. They
come last, and where the count says that no row failed they are known to be empty.

Great Expectations is imported inside functions, because that takes seconds.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any, cast

from tidegate.quality.importing import load_great_expectations

_COUNT, _ROWS = "unexpected_count", "table.row_count"
_SAMPLES = ("unexpected_values", "unexpected_index_list", "unexpected_rows")


def open_batch(frame: Any, reported: int | None) -> Any:
    """A DataFrame as a batch that is judged this way. `reported`: how many rows it is said to have; see `counted_rows`.

    Every DataFrame gets a context of its own, because a context keeps those it has seen.
    """
    gx = load_great_expectations()
    _datasource_type()  # adds itself to what contexts know
    context: Any = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_tidegate("tidegate", persist=False)
    definition = source.add_dataframe_asset("staged").add_batch_definition_whole_dataframe("checkpoint")
    batch = definition.get_batch({"dataframe": frame})
    batch.data.execution_engine.reported = reported
    return batch


def counted_rows(batch: Any) -> int:
    """How many rows a batch that was judged really has. If it is not what was reported, judge it anew without that."""
    counted = batch.data.execution_engine.counted
    return cast(int, batch.data.dataframe.count() if counted is None else counted)


@cache
def _datasource_type() -> Any:
    from typing import ClassVar, Literal

    from great_expectations.datasource.fluent.spark_datasource import SparkDatasource

    class TidegateDatasource(SparkDatasource):
        execution_engine_override: ClassVar[Any] = _engine_type()
        type: Literal["tidegate"] = "tidegate"  # type: ignore[assignment]

    return TidegateDatasource


@cache
def _engine_type() -> Any:
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
    from great_expectations.expectations.registry import get_metric_provider

    class OnePassEngine(SparkDFExecutionEngine):
        reported: int | None = None
        counted: int | None = None
        _to_count: Any = None  # the metric of the number of rows, while it has the reported value

        def resolve_metrics(
            self,
            metrics_to_resolve: Iterable[Any],
            metrics: dict[Any, Any] | None = None,
            runtime_configuration: dict[str, Any] | None = None,
        ) -> dict[Any, Any]:
            """Only those whose turn it is; the others are asked for again in the next round."""
            known = metrics or {}
            asked = list(metrics_to_resolve)
            samples = [metric for metric in asked if metric.metric_name.endswith(_SAMPLES)]
            others = [metric for metric in asked if metric not in samples]
            counts = [metric for metric in others if get_metric_provider(metric.metric_name, self)[1] is None]
            if turn := [metric for metric in others if metric not in counts]:
                return self._resolved(turn, metrics, runtime_configuration)
            if counts and self.reported is not None and all(map(_is_of_all_rows, counts)):
                (self._to_count,) = counts
                return {self._to_count.id: self.reported}
            if counts:
                more, self._to_count = [] if self._to_count is None else [self._to_count], None
                return self._resolved([*counts, *more], metrics, runtime_configuration)
            found: dict[Any, Any] = {metric.id: [] for metric in samples if known.get(_count_of(metric)) == 0}
            turn = [metric for metric in samples if metric.id not in found]
            return found | (self._resolved(turn, metrics, runtime_configuration) if turn else {})

        def _resolved(self, turn: list[Any], metrics: Any, runtime_configuration: Any) -> dict[Any, Any]:
            found: dict[Any, Any] = super().resolve_metrics(turn, metrics, runtime_configuration)
            for metric in filter(_is_of_all_rows, turn):
                self.counted = found[metric.id]
            return found

    return OnePassEngine


def _is_of_all_rows(metric: Any) -> bool:
    return bool(metric.metric_name == _ROWS and not metric.metric_domain_kwargs.get("row_condition"))


def _count_of(sample: Any) -> Any:
    """The id of the metric that counts what another one samples."""
    from great_expectations.validator.metric_configuration import MetricConfiguration

    name = sample.metric_name.rpartition(".")[0]
    values = {key: value for key, value in sample.metric_value_kwargs.items() if key != "result_format"}
    return cast(Any, MetricConfiguration(f"{name}.{_COUNT}", sample.metric_domain_kwargs, values)).id
