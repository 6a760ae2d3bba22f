"""Files as they arrive."""

import os
from pathlib import Path


def put(directory: Path, name: str, content: str = "k,v\na,1\n", mtime: int | None = None) -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    if mtime is not None:
        os.utime(path, ns=(mtime, mtime))
    return path
