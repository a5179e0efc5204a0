"""The object-store port: what the log needs of a store, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

#: ``created``: the object is durable and ours. ``exists``: some object is there, perhaps our own earlier try.
PutOutcome = Literal["created", "exists"]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing says of an object. ``modified`` is the store's own time, microseconds since the epoch."""

    key: str
    size: int
    modified: int


class ObjectStore(Protocol):
    """Objects under string keys, listed in key order, strongly consistent.

    Every method may raise ``StorageError``.
    """

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        """Create the object, whole and durable, unless the key exists.

        Raises:
            StoreAmbiguous: no definite answer; the object may or may not be there, or may still appear.
        """
        ...

    def get(self, key: str, *, last: int | None = None) -> bytes:
        """The object's bytes, or only its ``last`` so many (all, if it is shorter).

        Raises:
            ObjectNotFound: no such object.
        """
        ...

    def head(self, key: str) -> ObjectInfo | None:
        """The object's size and time; None if it does not exist."""
        ...

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        """Objects whose key starts with ``prefix`` (which ends in a slash) and sorts after ``after``, in key order."""
        ...

    def delete(self, key: str) -> None:
        """Delete the object; deleting what is not there succeeds."""
        ...

    def settle(self, prefix: str) -> None:
        """Return once all that a listing of ``prefix`` has shown before is durable (object stores: at once)."""
        ...
