"""The library in a form that travels with the session, because executors do not have it installed.

There is one zip per session, added as a Python artifact, which classic and Connect sessions both accept. Executors then
import `tidegate` like any module, once per worker process. So objects sent to a Spark task name functions instead of
containing them.
"""

from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from sys import stdlib_module_names
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import tidegate
from tidegate.spark.session.scratch import scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The parts that executors never need: those of Airflow, the coordinator's process and the developer.
_LEFT_HOME = {"airflow", "cli", "quality", "testing", "ui"}
_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal content makes an equal file

_shipped: WeakSet[Any] = WeakSet()


def ship(session: "SparkSession") -> None:
    """Add the library to a session, once."""
    if session not in _shipped:
        session.addArtifacts(str(_archive()), pyfile=True)
        _shipped.add(session)


def travel_by_value(modules: set[ModuleType]) -> None:
    """Send the functions of these modules (the user's UDFs and sinks) by value, because executors lack them. Modules of
    Python itself are excluded: every class has `builtins` among the modules of its bases, and sending those by value
    fails."""
    from pyspark import cloudpickle

    importable = {"__main__", "tidegate", "pyspark", *stdlib_module_names}
    for module in modules:
        if module.__name__.partition(".")[0] not in importable:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _archive() -> Path:
    """Return the library as a file, from which Spark serves it while the session lives."""
    content = _zipped(Path(tidegate.__file__).parent)
    path = scratch() / f"tidegate-{sha256(content).hexdigest()[:16]}.zip"
    if not path.exists():
        path.write_bytes(content)
    return path


@cache
def _zipped(package: Path) -> bytes:
    buffer = BytesIO()
    with ZipFile(buffer, "w", ZIP_DEFLATED) as archive:
        for source in sorted(package.rglob("*.py")):
            relative = source.relative_to(package)
            if relative.parts[0] not in _LEFT_HOME:
                archive.writestr(ZipInfo(f"tidegate/{relative.as_posix()}", _EPOCH), source.read_bytes())
    return buffer.getvalue()
