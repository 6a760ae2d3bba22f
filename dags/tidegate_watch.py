"""Notices when the flight delays pipeline has completed no checkpoint for too long, and delivers what a crash has left
undelivered."""

from flights.pipeline import pipeline
from tidegate.airflow import watch_dag

dag = watch_dag(pipeline)
