"""The package's entry in Airflow's list of providers: its name, and the database's connection type and form."""

from typing import Any

CONNECTION_TYPE = "tidegate"


def provider_info() -> dict[str, Any]:
    """Return the provider's description, for the entry point `apache_airflow_provider`. Airflow calls it in every
    component, so it imports nothing.
    """
    return {
        "package-name": "tidegate",
        "name": "Tidegate",
        "description": "Flink's checkpoints for PySpark pipelines: `documentation <https://pypi.org/project/tidegate/>`__.",
        "connection-types": [
            {
                "connection-type": CONNECTION_TYPE,
                "hook-class-name": "tidegate.airflow.database_connection.DatabaseHook",
                "hook-name": "Tidegate",
                "ui-field-behaviour": {
                    "relabeling": {"schema": "Database", "login": "Role"},
                    "placeholders": {
                        "host": "postgres.example.org",
                        "port": "5432",
                        "schema": "tidegate",
                        "login": "tidegate_runner",
                        "extra": '{"sslmode": "require"}',
                    },
                },
            }
        ],
    }
