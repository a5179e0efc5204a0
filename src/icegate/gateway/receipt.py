"""The promise of an answer to one export call."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Receipt(Future[None]):
    """Resolves when the call's records are durable, or with the reason why not.

    A call that is answered before that, at its deadline, cancels its receipt. What is not in an append by then is
    dropped: the client sends it again, and it must not be stored twice. ``released`` is called once the call's memory
    is free, which for a cancelled one is later than its answer.
    """

    def __init__(self, released: Callable[[], None]) -> None:
        super().__init__()
        self._released = released
        self.add_done_callback(lambda receipt: None if receipt.cancelled() else released())

    def claim(self) -> bool:
        """Whether the call still waits: then it can no longer be cancelled, else it is to be dropped. Ask once."""
        if self.set_running_or_notify_cancel():
            return True
        self._released()
        return False
