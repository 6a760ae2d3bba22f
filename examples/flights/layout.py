"""The directories of the demonstration, below the project's `.tidegate/demo`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from local_stack.stack import LocalStack

#: The directories that readers of each table open, below `tables/`. `current` is a link, which they resolve first.
TABLES = {
    "departures": "departures",
    "carrier_delays": "carrier_delays/current",
    "delay_by_weather": "delay_by_weather/current",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The demonstration's directories. `project` has the DAGs; `home` is the pipeline's TIDEGATE_HOME, so `tidegate`
    finds the same files there.
    """

    project: Path
    home: Path

    @classmethod
    def of(cls, project: Path) -> "Layout":
        return cls(project, project / ".tidegate" / "demo")

    @property
    def landing(self) -> Path:
        return self.home / "landing"

    @property
    def tables(self) -> Path:
        return self.home / "tables"

    @property
    def reports(self) -> Path:
        return self.home / ".tidegate" / "docs"

    @property
    def dags(self) -> Path:
        """The demonstration's own copy of the DAG files, since it deploys a wrong one."""
        return self.home / "dags"

    def stack(self, dags: Path, environment: Mapping[str, str] | None = None, spark_server: bool = True) -> LocalStack:
        """Return the stack. Its Postgres is where `tidegate` expects an embedded one, so history can be read after it
        stops.
        """
        return LocalStack(
            self.home / ".tidegate",
            dags=dags,
            plugins=self.project / "plugins",
            environment={"TIDEGATE_HOME": str(self.home), **(environment or {})},
            spark_server=spark_server,
        )
