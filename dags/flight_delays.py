"""The flight delays pipeline as an Airflow DAG. Every ten minutes, the data that has arrived becomes a checkpoint."""

from flights.pipeline import pipeline
from tidegate.airflow import checkpoint_dag

dag = checkpoint_dag(pipeline, schedule="*/10 * * * *")
