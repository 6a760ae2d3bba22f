"""An execution engine of Great Expectations for Spark that resolves metrics in an order that takes fewer Spark jobs.

Great Expectations resolves metrics in rounds, as far as their dependencies are known, and each round runs a Spark job
for the counts of that round. This engine postpones counts until nothing else can be resolved. Then the counts of all
expectations of a suite are known, and one job computes them. Only the number of rows is needed earlier. If it has been
reported, that number is used until it is counted with the others. Samples of failing rows take a job each. They come
last, and are known to be empty where the count is zero.

Great Expectations is imported inside functions, because that takes seconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from tidegate.quality.importing import open_context
from tidegate.settings.shortcuts import Shortcut

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHORTCUT = Shortcut(
    "validation",
    "great_expectations",
    (
        "great_expectations.core.batch:Batch",
        "great_expectations.execution_engine.sparkdf_batch_data:SparkDFBatchData",
        "great_expectations.execution_engine.sparkdf_execution_engine:SparkDFExecutionEngine.resolve_metrics",
        "great_expectations.expectations.registry:get_metric_provider",
        "great_expectations.validator.metric_configuration:MetricConfiguration",
        "great_expectations.validator.validator:Validator.active_batch",
        "great_expectations.validator.validator:Validator.graph_validate",
        "great_expectations.validator.validator:Validator.process_expectations_for_validation",
    ),
    "Great Expectations decides which Spark jobs a suite takes",
)

_COUNT, _ROWS = "unexpected_count", "table.row_count"
_SAMPLES = ("unexpected_values", "unexpected_index_list", "unexpected_rows")


def validate_at_once(
    frame: "DataFrame", built: Sequence[Any], result_format: Mapping[str, Any], reported: int | None
) -> tuple[list[Any], int]:
    """Return Great Expectations' results in an order of its own, and the counted number of rows. If that differs from
    `reported`, validate again without it. Safe for several threads at once."""
    validator = _validator(frame, reported)
    configurations = validator.process_expectations_for_validation([item.configuration for item in built], {})
    results = validator.graph_validate(
        configurations=configurations, runtime_configuration={"result_format": result_format}
    )
    counted = validator.execution_engine.counted
    return results, validator.active_batch.data.dataframe.count() if counted is None else counted


def _validator(frame: "DataFrame", reported: int | None) -> Any:
    """Return a validator for one DataFrame, with an engine of its own because engines keep metrics of earlier data."""
    context = open_context()
    from great_expectations.core.batch import Batch
    from great_expectations.execution_engine.sparkdf_batch_data import SparkDFBatchData
    from great_expectations.validator.validator import Validator

    engine = _engine_type()(spark=frame.sparkSession, persist=False)
    engine.reported = reported
    data: Any = SparkDFBatchData(engine, frame)
    return Validator(engine, data_context=context, batches=[Batch(data)])


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
            """Resolve only the metrics whose turn it is. Great Expectations requests the others again in the next
            round."""
            known = metrics or {}
            requested = list(metrics_to_resolve)
            samples = [metric for metric in requested if metric.metric_name.endswith(_SAMPLES)]
            others = [metric for metric in requested if metric not in samples]
            counts = [metric for metric in others if get_metric_provider(metric.metric_name, self)[1] is None]
            if turn := [metric for metric in others if metric not in counts]:
                return self._resolved(turn, metrics, runtime_configuration)
            if counts and self.reported is not None and all(map(_is_of_all_rows, counts)):
                (self._to_count,) = counts
                return {self._to_count.id: self.reported}
            if counts:
                more, self._to_count = [] if self._to_count is None else [self._to_count], None
                return self._resolved([*counts, *more], metrics, runtime_configuration)
            resolved: dict[Any, Any] = {metric.id: [] for metric in samples if known.get(_count_of(metric)) == 0}
            turn = [metric for metric in samples if metric.id not in resolved]
            return resolved | (self._resolved(turn, metrics, runtime_configuration) if turn else {})

        def _resolved(self, turn: list[Any], metrics: Any, runtime_configuration: Any) -> dict[Any, Any]:
            resolved: dict[Any, Any] = super().resolve_metrics(turn, metrics, runtime_configuration)
            for metric in filter(_is_of_all_rows, turn):
                self.counted = resolved[metric.id]
            return resolved

    return OnePassEngine


def _is_of_all_rows(metric: Any) -> bool:
    return bool(metric.metric_name == _ROWS and not metric.metric_domain_kwargs.get("row_condition"))


def _count_of(sample: Any) -> Any:
    """Return the id of the metric that counts the rows which another metric samples."""
    from great_expectations.validator.metric_configuration import MetricConfiguration

    name = sample.metric_name.rpartition(".")[0]
    values = {key: value for key, value in sample.metric_value_kwargs.items() if key != "result_format"}
    return cast(Any, MetricConfiguration(f"{name}.{_COUNT}", sample.metric_domain_kwargs, values)).id
