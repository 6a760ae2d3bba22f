"""Imports for Airflow's scheduler before it forks its workers, so that tasks inherit them.

A task is forked from a worker of the scheduler. It would otherwise spend seconds on importing libraries that the task
before it has imported. Airflow reads `SETTINGS` in every component, from its own directory for configuration.
"""

SETTINGS = """import sys

if sys.argv[1:2] == ["scheduler"]:
    from local_stack.imports import import_for_tasks

    import_for_tasks()
"""


def import_for_tasks() -> None:
    """Import the modules that the steps of a DAG run use, and start nothing."""
    import tidegate.assembly
    import tidegate.postgres.store
    import tidegate.spark.region  # noqa: F401
    from tidegate.quality.importing import load_great_expectations

    load_great_expectations()
