"""Group commit: what gathers while one append is in flight goes out in the next."""

from __future__ import annotations

import logging
import threading
import uuid
from collections import deque
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from icegate.errors import IceGateError, Overloaded
from icegate.wal import Batch, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from icegate.clock import Clock
    from icegate.gateway.receipt import Receipt
    from icegate.wal import Appender

log = logging.getLogger(__name__)


def as_answer(error: BaseException) -> Exception:
    """A failure as the requests' answer: an ``Exception`` in any case, and retryable if memory ran out."""
    if isinstance(error, MemoryError):
        return Overloaded("there is not enough memory now; send the request again")
    return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class Part:
    """Decoded rows of some requests: ``batches[i]`` of the table's rows resolve ``waiting[i]``."""

    table: pa.Table
    batches: Sequence[Batch]
    waiting: Sequence[Receipt]

    def only(self, kept: Sequence[bool]) -> Part:
        """The part without the requests that are not ``kept``."""
        if all(kept):
            return self
        rows = np.repeat(kept, [batch.rows for batch in self.batches])
        return Part(
            self.table.filter(pa.array(rows)), list(compress(self.batches, kept)), list(compress(self.waiting, kept))
        )


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """When an append goes out.

    ``linger``: seconds to gather before an append though none is in flight. ``max_bytes``: decoded size beyond which
    a segment takes no more. ``append_timeout``: seconds until an append without a clear outcome fails as retryable.
    """

    linger: float = 0.0
    max_bytes: int = 64 * 1024 * 1024
    append_timeout: float = 4.0


class GroupCommit:
    """The one writer of a (topic, shard) in this process: encodes and appends on a thread of its own."""

    def __init__(self, topic: str, appender: Appender, *, writer: str, clock: Clock, options: CommitOptions) -> None:
        self._topic = topic
        self._appender = appender
        self._writer = writer
        self._clock = clock
        self._options = options
        self._parts: deque[Part] = deque()
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"commit-{topic}", daemon=True)
        self._thread.start()

    def add(self, part: Part) -> None:
        """Queue rows; their receipts resolve when the segment is durable, or with the append's error."""
        with self._changed:
            self._parts.append(part)
            self._changed.notify()

    def close(self) -> None:
        """Append what is queued, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while parts := self._gather():
            claims = [[receipt.claim() for receipt in part.waiting] for part in parts]
            waiting = [each for part, kept in zip(parts, claims, strict=True) for each in compress(part.waiting, kept)]
            if not waiting:
                continue
            try:
                self._append([part.only(kept) for part, kept in zip(parts, claims, strict=True)])
            except BaseException as error:
                told = f"{error} ({error.__cause__})" if error.__cause__ else error
                log.warning("append to %s failed: %s", self._topic, told, exc_info=not isinstance(error, IceGateError))
                for receipt in waiting:
                    receipt.set_exception(as_answer(error))
            else:
                for receipt in waiting:
                    receipt.set_result(None)

    def _gather(self) -> list[Part]:
        """Everything that waits, up to the size bound; empty once closed and drained."""
        with self._changed:
            self._changed.wait_for(lambda: self._parts or self._closing)
            if self._options.linger and not self._closing:
                self._changed.wait_for(lambda: self._closing, timeout=self._options.linger)
            taken: list[Part] = []
            size = 0
            while self._parts and (not taken or size + self._parts[0].table.nbytes <= self._options.max_bytes):
                taken.append(self._parts.popleft())
                size += taken[-1].table.nbytes
            return taken

    def _append(self, parts: Sequence[Part]) -> None:
        segment = encode(
            self._topic,
            pa.concat_tables([part.table for part in parts]),
            [batch for part in parts for batch in part.batches],
            attempt=str(uuid.uuid4()),
            writer=self._writer,
            created=self._clock.now(),
        )
        self._appender.append(segment, timeout=self._options.append_timeout)
