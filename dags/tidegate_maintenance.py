"""A daily clean-up after the flight delays pipeline, which reports the retained checkpoints."""

from flights.pipeline import pipeline
from tidegate.airflow import maintenance_dag

dag = maintenance_dag(pipeline)
