"""A file that knows its checksum when it has been written, so that nobody has to read it again for that."""

import hashlib
from typing import Any


class HashingFile:
    """What pyarrow writes to, around a file that somebody else opened and makes durable."""

    closed = False
    deaf = False  # takes everything and writes nothing

    def __init__(self, file: Any) -> None:
        self._file = file
        self._sha = hashlib.sha256()
        self.size = 0

    def write(self, content: Any) -> int:
        if self.deaf:
            return len(content)
        self._file.write(content)
        self._sha.update(content)
        self.size += len(content)
        return len(content)

    def flush(self) -> None:
        """Whoever opened the file makes it durable."""

    def close(self) -> None:
        """Likewise."""

    def tell(self) -> int:
        return self.size

    def checksum(self) -> str:
        return self._sha.hexdigest()

    def digest(self) -> bytes:
        return self._sha.digest()
