"""Two pipelines in a chain: silver runs after each checkpoint of bronze."""

from bronze_silver import bronze, silver
from tidegate.airflow import checkpoint_dag, sink_asset

orders = checkpoint_dag(bronze.pipeline, spark_conn_id="spark_server")
totals = checkpoint_dag(silver.pipeline, schedule=[sink_asset("bronze", "orders")], spark_conn_id="spark_server")
