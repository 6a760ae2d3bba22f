"""Imported before Airflow, which makes itself a home when it is imported and must not take the user's.

It is beside the temporary directory of the run, with which it goes.
"""

import os
import tempfile
from pathlib import Path

os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-", dir=Path(tempfile.gettempdir()).parent)
