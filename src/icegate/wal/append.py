"""Append: create the next offset, once, and know whether it happened.

What the store answers to creating offset n, and what follows (docs/adr/0002):

=========================  =====================================================================
created                    durable; acknowledge if the fence holds
exists                     ours (a proxy or client resent our PUT): as created; another's: n + 1;
                           now absent: list again
no answer, conflict, 5xx   read the key: ours: as created; absent: the same n again; another's: n + 1
still unknown at deadline  fail as retryable; the next attempt starts at this n
=========================  =====================================================================

n + 1 is tried only after n was seen to exist, so offsets stay dense, and a writer has at most one unresolved
create per shard. The fence: a writer that slept through a cleanup could create a deleted offset again, which no
reader would ever see. So after a create, a listing from n that shows a boundary marker at or above n means the
append did not happen, and it is done again at the true head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from icegate.errors import (
    AppendUnknown,
    FormatTooNew,
    ObjectNotFound,
    SegmentCorrupt,
    StorageError,
    StoreAmbiguous,
)
from icegate.wal.keys import Boundary, SegmentKey, parse
from icegate.wal.read import read_footer

if TYPE_CHECKING:
    from random import Random

    from icegate.clock import Clock
    from icegate.storage import ObjectStore
    from icegate.wal.keys import Shard
    from icegate.wal.segment import Encoded

_FIRST_BACKOFF = 0.02
_LONGEST_BACKOFF = 1.0


class Appender:
    """The one writer of a shard in this process. Not thread-safe: one append at a time."""

    def __init__(self, store: ObjectStore, shard: Shard, *, clock: Clock, random: Random) -> None:
        self._store = store
        self._shard = shard
        self._clock = clock
        self._random = random
        self._next: int | None = None

    def append(self, segment: Encoded, *, timeout: float) -> SegmentKey:
        """Make a segment durable; on return it will be read exactly once.

        Args:
            segment: the encoded segment; its attempt id must not have been appended before.
            timeout: seconds after which to give up.

        Raises:
            AppendUnknown: the outcome is unknown at the deadline. The segment may be durable.
        """
        deadline = self._clock.monotonic() + timeout
        backoff = _FIRST_BACKOFF
        last_error: StorageError | None = None
        while self._clock.monotonic() < deadline:
            try:
                key = self._try_once(segment)
            except StorageError as error:
                last_error = error
                left = deadline - self._clock.monotonic()
                self._clock.sleep(min(left, backoff * self._random.uniform(0.5, 1.0)) if left > 0 else 0)
                backoff = min(_LONGEST_BACKOFF, backoff * 2)
                continue
            if key is not None:
                return key
        # The store's own words name paths, hosts and buckets: they are the cause, for the log, and not the answer.
        raise AppendUnknown(
            f"append to {self._shard.topic}/{self._shard.number} had no clear outcome after {timeout:g} s;"
            " send it again"
        ) from last_error

    def _try_once(self, segment: Encoded) -> SegmentKey | None:
        """One step of the table above: the key if the append is done, None to go on at ``self._next``."""
        if self._next is None:
            self._store.put_if_absent(self._shard.registration, b"")
            self._next = self._head(0) + 1
        key = self._shard.segment(self._next)
        unclear: StoreAmbiguous | None = None
        try:
            created = self._store.put_if_absent(key.path, segment.data) == "created"
        except StoreAmbiguous as error:
            created, unclear = False, error
        if not created:
            attempt = self._attempt_at(key)
            if attempt is None and unclear is not None:
                raise unclear  # absent so far: the same offset again, after a pause
            if attempt != segment.attempt:
                # Another's, or cleaned since. Others may be far ahead by now: listing costs less than losing a PUT
                # at each of their offsets.
                self._next = self._head(key.offset) + 1
                if self._next == key.offset:
                    raise StoreAmbiguous(f"{key} exists, says the store, and shows no sign of it")
                return None
            if unclear is not None:
                self._store.settle(self._shard.prefix)  # that it can be read does not yet mean that it will stay
        if self._is_fenced(key):
            self._next = None
            return None
        self._next = key.offset + 1
        return key

    def _attempt_at(self, key: SegmentKey) -> str | None:
        """Whose segment is there: its attempt id, None if there is no object, "" if it cannot be ours."""
        try:
            return read_footer(self._store, key).attempt
        except ObjectNotFound:
            return None
        except (SegmentCorrupt, FormatTooNew):  # ours appears whole, and in our format, or not at all
            return ""

    def _is_fenced(self, key: SegmentKey) -> bool:
        return any(
            isinstance(parse(info.key), Boundary)
            for info in self._store.list_after(self._shard.prefix, self._shard.before(key.offset))
        )

    def _head(self, known: int) -> int:
        """The highest offset of any key, which is not below ``known`` - 1."""
        offsets = (
            parsed.offset
            for info in self._store.list_after(self._shard.prefix, self._shard.before(known))
            if (parsed := parse(info.key)) is not None
        )
        return max(offsets, default=known - 1)
