"""The connection type of the metadata database, for Airflow's form and its button "Test"."""

from airflow.sdk import BaseHook

from tidegate.airflow.provider import CONNECTION_TYPE
from tidegate.protocol.facts.errors import CheckpointError


class DatabaseHook(BaseHook):
    """A hook that tests whether the database of a connection answers and has the schema. Steps find it by themselves:
    see `tidegate.embedded_postgres.locate`.
    """

    conn_name_attr = "tidegate_conn_id"
    default_conn_name = "tidegate_default"
    conn_type = CONNECTION_TYPE
    hook_name = "Tidegate"

    def __init__(self, tidegate_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.tidegate_conn_id = tidegate_conn_id

    def test_connection(self) -> tuple[bool, str]:
        from tidegate.embedded_postgres.locate import connection_url  # heavy; Airflow imports this file for its form
        from tidegate.postgres.engine import connect
        from tidegate.postgres.migrate import check

        engine = connect(connection_url(self.get_connection(self.tidegate_conn_id)))
        try:
            check(engine)
        except CheckpointError as error:
            return False, str(error)
        finally:
            engine.dispose()
        return True, "The database answers, and its schema is up to date."
