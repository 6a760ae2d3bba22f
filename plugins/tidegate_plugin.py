"""Registers Tidegate's pages if the package is on the path but not installed.

An installed package registers them by itself, and two plugins of the same name are an import error in Airflow.
"""

from importlib.metadata import entry_points

if not entry_points(group="airflow.plugins", name="tidegate"):
    from tidegate.airflow.plugin import TidegatePlugin as TidegatePlugin
