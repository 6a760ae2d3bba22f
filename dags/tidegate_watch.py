"""Detects when the flight delays pipeline has completed no checkpoint for too long, and finishes deliveries that a
crash has interrupted.
"""

from flights.pipeline import pipeline
from tidegate.airflow import watch_dag

dag = watch_dag(pipeline)
