"""Cleans up after the flight delays pipeline once a day, and says what of it is kept."""

from flights.pipeline import pipeline
from tidegate.airflow import maintenance_dag

dag = maintenance_dag(pipeline)
