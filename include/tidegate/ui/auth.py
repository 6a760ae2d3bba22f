"""Who may see what: Airflow's own authentication and authorisation, for apps that Airflow serves but does not protect.

The only place that imports Airflow's `core_api.security`, which is not declared public: if it moves, only this file
changes.
"""

from typing import Any

from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends


def may_read_pipeline() -> Any:
    """A dependency: 401 without a valid token or login cookie, 403 if the user may not read the pipeline's DAG.

    Airflow looks for the DAG in the path parameter `dag_id`, so routes about one pipeline must use that name: a DAG
    made by `checkpoint_dag` has its pipeline's name. Without that parameter the right to read DAGs at all is required.
    """
    return Depends(requires_access_dag(method="GET"))
