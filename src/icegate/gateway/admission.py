"""Admission: how much may be in flight at once."""

from __future__ import annotations

import threading

from icegate.errors import Overloaded, ShuttingDown


class Admission:
    """Counts the payload bytes of requests whose records are neither durable nor refused."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._in_flight = 0
        self._open = True
        self._changed = threading.Condition()

    def acquire(self, size: int) -> None:
        """Take ``size`` bytes of the limit; ``release`` gives them back.

        Raises:
            Overloaded: the limit is reached. A request larger than the limit passes when it is alone.
            ShuttingDown: admission is closed.
        """
        with self._changed:
            if not self._open:
                raise ShuttingDown("this gateway is shutting down; send the request again, elsewhere or later")
            if self._in_flight and self._in_flight + size > self._limit:
                raise Overloaded(f"{self._in_flight} bytes are in flight, the limit is {self._limit}; try again later")
            self._in_flight += size

    def release(self, size: int) -> None:
        """Give back what ``acquire`` took."""
        with self._changed:
            self._in_flight -= size
            self._changed.notify_all()

    @property
    def is_open(self) -> bool:
        """Whether requests are admitted at all."""
        return self._open

    def close(self, grace: float) -> bool:
        """Admit nothing from now on, and wait up to ``grace`` seconds until nothing is in flight.

        Returns:
            Whether everything that was in flight is resolved.
        """
        with self._changed:
            self._open = False
            return self._changed.wait_for(lambda: self._in_flight == 0, timeout=grace)
