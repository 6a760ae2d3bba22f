"""Takes the flight delays pipeline back to an earlier checkpoint: trigger it, and its form asks to where."""

from flights.pipeline import pipeline
from tidegate.airflow import restore_dag

dag = restore_dag(pipeline)
