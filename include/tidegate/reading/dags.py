"""The DAGs that have requested checkpoints of a pipeline, and the checkpoints that a DAG run has requested."""

from datetime import UTC

from sqlalchemy import Connection, text

from tidegate.protocol.facts.names import requests_of_run
from tidegate.reading.pipeline_answers import Dag

_DAGS = text("""
SELECT dag_id, last_seen_at FROM tidegate.pipeline_dags WHERE pipeline_id = :pipeline_id ORDER BY dag_id
""")
_ALL = text("SELECT DISTINCT dag_id FROM tidegate.pipeline_dags ORDER BY dag_id")
_PIPELINES = text("SELECT pipeline_id FROM tidegate.pipeline_dags WHERE dag_id = :dag_id ORDER BY pipeline_id")
# The index on request ids serves LIKE patterns with a known prefix.
_OF_RUN = text("""
SELECT pipeline_id, checkpoint_id FROM tidegate.checkpoints WHERE request_id LIKE :beginning
ORDER BY pipeline_id, checkpoint_id DESC LIMIT 1000
""")


def dags_of(connection: Connection, pipeline_id: str) -> list[Dag]:
    rows = connection.execute(_DAGS, {"pipeline_id": pipeline_id})
    return [Dag(dag_id=row.dag_id, last_seen_at=row.last_seen_at.astimezone(UTC)) for row in rows]


def all_dags(connection: Connection) -> list[str]:
    return list(connection.execute(_ALL).scalars())


def pipelines_of(connection: Connection, dag_id: str) -> list[str]:
    return list(connection.execute(_PIPELINES, {"dag_id": dag_id}).scalars())


def checkpoints_of_run(connection: Connection, dag_id: str, run_id: str) -> list[tuple[str, int]]:
    """Return the requested checkpoints by pipeline, newest first."""
    beginning = f"{escape_like(requests_of_run(dag_id, run_id))}%"
    return [(row.pipeline_id, row.checkpoint_id) for row in connection.execute(_OF_RUN, {"beginning": beginning})]


def escape_like(text_: str) -> str:
    """Escape text for use inside a LIKE pattern."""
    return text_.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
