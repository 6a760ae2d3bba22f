"""`SinkSuite`: tests that a sink passes if it keeps the contract of `tidegate.ports.Sink`."""

from tidegate.testing.sink_participants import ParticipantTests
from tidegate.testing.sink_rewinds import RewindTests
from tidegate.testing.sink_rows import RowTests
from tidegate.testing.sink_staging import StagingTests
from tidegate.testing.sink_trials import S


class SinkSuite(ParticipantTests[S], StagingTests[S], RowTests[S], RewindTests[S]):
    """Tests of one sink, for pytest. A subclass makes the sink, and reads its rows as its readers do.

    The tests stage and commit checkpoints as a pipeline does, without one. A commit, a rewind and staging are killed
    before each line of the sink's package, in a process of its own. Commits and rewinds are also stopped there, and
    continue after a later attempt. Abilities that the sink does not have are not tested.

    A sink in the commit (`tidegate.ports.CommittingSink`) is also prepared and run in transactions that are committed
    or rolled back, by the store of an embedded server that the suite starts for the class. Its URL is in
    `TIDEGATE_DATABASE_URL`, with a lock timeout of one second.

    Attributes:
        schema: The columns of the rows that are staged. A sink with other columns overrides `row` too.
        other_columns: Whether the sink also accepts a column `k` of integers with a `v` of any type.
        nulls: Whether each column may be null.
        many: The number of rows that are committed at once. Use a million from time to time.
        every: Interrupt work before every n-th line only. 1 interrupts it before all.
        may_wait: Whether a commit may fail while another process has stopped in the middle of one and holds a lock. It
            must succeed when that process has continued.

    Example:
        ```python
        from tidegate import ParquetSink
        from tidegate.testing import SinkSuite


        class TestParquetSink(SinkSuite):
            def sink(self, directory):
                return ParquetSink(str(directory))

            def shown(self, sink):
                import pyarrow.dataset as ds

                return ds.dataset(sink.table(), format="parquet").to_table().to_pylist()
        ```
    """
