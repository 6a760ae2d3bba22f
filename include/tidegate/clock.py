"""Access to the system's clocks. No other module reads the wall clock."""

import time
from datetime import UTC, datetime


class SystemClock:
    """The clock of this process, see `ports.Clock`. Times have milliseconds: they are enough for the protocol, and both
    the store and JSON keep them."""

    def now(self) -> datetime:
        now = datetime.now(UTC)
        return now.replace(microsecond=now.microsecond // 1000 * 1000)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
