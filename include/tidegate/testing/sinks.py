"""`SinkSuite`: tests that a sink passes if it keeps the contract of `tidegate.ports.Sink`."""

from tidegate.testing.sink_participants import ParticipantTests
from tidegate.testing.sink_rewinds import RewindTests
from tidegate.testing.sink_rows import RowTests
from tidegate.testing.sink_staging import StagingTests
from tidegate.testing.sink_trials import S


class SinkSuite(ParticipantTests[S], StagingTests[S], RowTests[S], RewindTests[S]):
    """Tests of one sink, for pytest: a subclass says how the sink is made, and what its readers see.

    The tests stage and commit checkpoints as a pipeline does, without one. A commit, a rewind and staging are killed
    before each line of the sink's package, in a process of its own. Commits and rewinds are also stopped there, and go
    on after a later attempt. What the sink does not claim to do is not tested.

    A sink in the commit (`tidegate.ports.CommittingSink`) is also prepared and run in transactions that are committed
    or rolled back, by the store of an embedded server that the suite starts for the class. Its URL is in
    `TIDEGATE_DATABASE_URL`, where it waits a second for locks.

    Attributes:
        schema: The columns of the rows that are staged. A sink of other columns overrides `row`, too.
        other_columns: Whether the sink also takes a column `k` of integers with a `v` of any type.
        nulls: Whether each column may be null.
        many: The number of rows that are committed at once. Take a million now and then.
        every: Of the lines before which work is interrupted, each such is taken. 1 takes all.
        may_wait: Whether a commit may fail while another process has stopped in the middle of one, because that holds a
            lock. It must succeed when that process has gone on.

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
