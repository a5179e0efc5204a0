"""Time, as the protocol sees it: a seam, so that a simulator can own it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now(self) -> int:
        """Wall clock, microseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after that many seconds."""
        ...


class SystemClock:
    """This machine's clock."""

    def now(self) -> int:
        """Wall clock, microseconds since the epoch, UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)
