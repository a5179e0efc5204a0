"""From a request's bytes to a durable segment.

Transport threads submit; one worker decodes whatever waits in one call (decoding holds the interpreter's lock, so
more workers would only cost more); each topic's group commit encodes and appends.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from icegate.gateway.group_commit import Part, as_answer
from icegate.gateway.receipt import Receipt
from icegate.otlp import Request, decode
from icegate.tables import TOPICS
from icegate.wal import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from icegate.gateway.group_commit import GroupCommit

log = logging.getLogger(__name__)

#: Payload bytes decoded in one call; more would only make the first of them wait.
_MICRO_BATCH_BYTES: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Submitted:
    topic: str
    request: Request
    receipt: Receipt


class Ingest:
    """The pipeline behind both transports."""

    def __init__(self, commits: Mapping[str, GroupCommit]) -> None:
        self._commits = commits
        self._queue: deque[_Submitted] = deque()
        self._closing = False
        self._changed = threading.Condition()
        self._worker = threading.Thread(target=self._run, name="decode", daemon=True)
        self._worker.start()

    def submit(self, topic: str, request: Request, *, released: Callable[[], None]) -> Receipt:
        """Queue a request; ``released`` is called once it takes no more memory."""
        receipt = Receipt(released)
        with self._changed:
            self._queue.append(_Submitted(topic, request, receipt))
            self._changed.notify()
        return receipt

    def close(self) -> None:
        """Decode and append what was submitted, then stop. Nothing may be submitted afterwards."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._worker.join()
        for commit in self._commits.values():
            commit.close()

    def _run(self) -> None:
        while batch := self._take():
            waiting = [each for each in batch if not each.receipt.cancelled() or each.receipt.claim()]
            for topic in TOPICS:
                if of_topic := [each for each in waiting if each.topic == topic]:
                    self._decode(topic, of_topic)

    def _take(self) -> list[_Submitted]:
        """What waits, up to a micro-batch; empty once closed and drained."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            taken: list[_Submitted] = []
            size = 0
            while self._queue and (not taken or size + len(self._queue[0].request.payload) <= _MICRO_BATCH_BYTES):
                taken.append(self._queue.popleft())
                size += len(taken[-1].request.payload)
            return taken

    def _decode(self, topic: str, submitted: Sequence[_Submitted]) -> None:
        try:
            decoded = decode(topic, [each.request for each in submitted])
        except BaseException as error:
            if len(submitted) > 1:  # whichever it was, it must not be the others' answer
                middle = len(submitted) // 2
                self._decode(topic, submitted[:middle])
                self._decode(topic, submitted[middle:])
                return
            log.exception("decoding a request for %s failed", topic)
            if submitted[0].receipt.claim():
                submitted[0].receipt.set_exception(as_answer(error))
            return
        batches: list[Batch] = []
        waiting: list[Receipt] = []
        for index, each in enumerate(submitted):
            if decoded.rows[index]:
                batches.append(Batch(each.request.tenant, decoded.rows[index]))
                waiting.append(each.receipt)
            elif each.receipt.claim():
                if index in decoded.failures:
                    each.receipt.set_exception(decoded.failures[index])
                else:
                    each.receipt.set_result(None)
        if waiting:
            self._commits[topic].add(Part(decoded.table, batches, waiting))
