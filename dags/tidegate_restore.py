"""Restores the flight delays pipeline to an earlier checkpoint. Trigger the DAG; its form has the target."""

from flights.pipeline import pipeline
from tidegate.airflow import restore_dag

dag = restore_dag(pipeline)
