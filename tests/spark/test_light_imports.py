"""What a driver does not import: PySpark's test helpers, and with them pandas."""

from pathlib import Path

import pytest
from own_processes import printed
from spark_checkpoints import Landing

pytestmark = pytest.mark.spark

LIGHTLY = """
import sys
import pyspark.sql
from tidegate.spark.session.light_imports import import_lightly
import_lightly()
from pyspark.testing.utils import have_numpy
print(have_numpy, "pandas" in sys.modules)
"""


@pytest.mark.parametrize(
    "wanted",
    [
        "from pyspark.testing import assertDataFrameEqual as found",
        "from pyspark.testing.utils import assertSchemaEqual as found",
        "import pyspark.testing.sqlutils; found = pyspark.testing.sqlutils",
        "import pyspark.testing; found = pyspark.testing.assertDataFrameEqual",
    ],
)
def test_pyspark_learns_that_there_is_numpy_and_who_asks_for_more_gets_all(wanted: str) -> None:
    rest = f"{wanted}\nimport_lightly()\nprint(bool(found), sys.modules['pyspark.testing.utils'].__file__ is not None)"
    assert printed(LIGHTLY + rest).split() == ["True", "False", "True", "True"]


def test_a_driver_that_leaves_parquet_to_its_subtasks_does_without_pandas(tmp_path: Path) -> None:
    landing = Landing(tmp_path / "landing")
    for k in "abcdefgh":
        landing.put(k=[k, "z"])
    program = """
import sys
from pathlib import Path
from spark_checkpoints import Checkpoints
from tidegate import FileSource, Pipeline, count
from tidegate.spark.session.sessions import SparkSettings, open_session
root = Path(sys.argv[1])
source = FileSource(str(root / "landing"), format="parquet", schema="k STRING", splits=2, max_files_per_checkpoint=2)
pipeline = Pipeline("counts", parallelism=2)
pipeline.source("rows", source).key_by("k").aggregate("counted", n=count())
checkpoints = Checkpoints(pipeline, open_session(SparkSettings.local(2)), root)
for _ in range(3):  # a split has manifests then that are merged
    checkpoints.take()
print("pandas" in sys.modules)
print(len(checkpoints.rows("state:counted")))
checkpoints.session.stop()
"""
    assert printed(program, str(tmp_path)).split() == ["False", "7"]
