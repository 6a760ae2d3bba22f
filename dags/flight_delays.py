"""The flight delays pipeline as an Airflow DAG: every ten minutes, whatever has arrived becomes a checkpoint."""

from tidegate.airflow import checkpoint_dag
from tidegate.demo.flights import pipeline

dag = checkpoint_dag(pipeline, schedule="*/10 * * * *")
