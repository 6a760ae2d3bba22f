"""Every name of a library that the library does not promise to keep, and where we rest on it.

Those of shortcuts have a public way beside them, and are declared where the shortcut is taken (`settings.shortcuts`).
Of the others there is none: if a release lacks one, it is mended where it stands.
"""

from tidegate.settings.shortcuts import Shortcut

_CLASSIC = "pyspark.sql.classic.dataframe:DataFrame"
_DETERMINISM, _UI = "spark/driver/determinism.py", "ui/airflow_users.py"
_RENDERERS = "great_expectations.render.renderer.content_block.validation_results_table_content_block"

#: Names as `pkgutil.resolve_name` takes them, or `module:Class().name` for an attribute that the class sets.
OTHERS = {
    f"{_CLASSIC}()._jdf": _DETERMINISM,
    "pyspark.sql.connect.dataframe:DataFrame()._plan": _DETERMINISM,
    "pyspark.sql.connect.dataframe:DataFrame._explain_string": _DETERMINISM,
    "pyspark.sql:SparkSession._get_j_spark_session_class": _DETERMINISM,
    "pyspark:SparkContext._gateway": "spark/session/machine.py",
    "pyspark.cloudpickle:register_pickle_by_value": "spark/session/packaging.py",
    "pyspark.daemon:manager": "spark/executor/daemon.py",
    "pyspark.worker:main": "spark/executor/daemon.py",
    "pyspark.logger:PySparkLogger": "spark/session/sessions.py",
    "pyspark.sql.connect.client.retries:DefaultPolicy": "spark/session/sessions.py",
    "pyspark.sql.pandas.types:from_arrow_schema": "quality/validator.py",
    "pyspark.sql.pandas.types:to_arrow_schema": "spark/driver/columns.py",
    "great_expectations.exceptions.exceptions:ExpectationNotFoundError": "quality/suite_validation.py",
    "great_expectations.expectations.expectation_configuration:ExpectationConfiguration.to_domain_obj": (
        "quality/suite_validation.py"
    ),
    "great_expectations.render.view.view:DefaultJinjaPageView": "quality/page.py",
    f"{_RENDERERS}:ValidationResultsTableContentBlockRenderer": "quality/page.py",
    "airflow.api.common.trigger_dag:trigger_dag": "ui/airflow_runs.py",
    "airflow.models.dag:DagModel": "ui/airflow_runs.py",
    "airflow.models.dagbag:DBDagBag": "ui/airflow_runs.py",
    "airflow.models.dagrun:DagRun": "ui/airflow_runs.py",
    "airflow.utils.session:create_session": "ui/airflow_runs.py",
    "airflow.api_fastapi.app:get_auth_manager": _UI,
    "airflow.api_fastapi.core_api.security:get_user": _UI,
    "airflow.api_fastapi.core_api.security:bearer_scheme": _UI,
    "airflow.api_fastapi.auth.managers.base_auth_manager:COOKIE_NAME_JWT_TOKEN": _UI,
    "airflow.api_fastapi.auth.managers.models.resource_details:DagDetails": _UI,
    "airflow.api_fastapi.auth.managers.simple.simple_auth_manager:SimpleAuthManager": _UI,
    "airflow.sdk.execution_time.context:InletEventsAccessor": "airflow/assets.py",
    "airflow.sdk.observability.stats:gauge": "airflow/stats.py",
}


def shortcuts() -> list[Shortcut]:
    from tidegate.iceberg import rest
    from tidegate.quality import arrow_pass, one_pass
    from tidegate.spark.driver import run_job
    from tidegate.spark.session import jvm, lazy_session

    return [module.SHORTCUT for module in (arrow_pass, one_pass, run_job, jvm, lazy_session, rest)]
