"""The worked example of a sink passes the suite."""

from sqlite_suite import SqliteSuite


class TestSqliteSink(SqliteSuite):
    pass
