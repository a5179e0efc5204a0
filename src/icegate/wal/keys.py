"""Names in the log.

::

    wal/<topic>/<shard:04d>/<offset:020d>.parquet      a segment; offsets are dense from 0 per (topic, shard)
    wal/<topic>/<shard:04d>/<offset:020d>.boundary     a marker: offsets up to and including this are gone or going
    wal/<topic>/shards/<shard:04d>                     created before the shard's first segment, never removed
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from icegate.errors import WalError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = "wal"
#: A shard's number as it stands in names: four digits, more only if they are needed.
SHARD = re.compile(r"[0-9]{4}|[1-9][0-9]{4,}")
_KEY = re.compile(rf"{ROOT}/([a-z]+)/({SHARD.pattern})/([0-9]{{20}})\.(parquet|boundary)")


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """One dense sequence of offsets."""

    topic: str
    number: int

    @property
    def prefix(self) -> str:
        """The folder its keys are in."""
        return f"{ROOT}/{self.topic}/{self.number:04d}/"

    @property
    def registration(self) -> str:
        """The key that says the shard exists."""
        return f"{registrations(self.topic)}{self.number:04d}"

    def before(self, offset: int) -> str:
        """A string that sorts after every key below ``offset`` and before every key at it."""
        return f"{self.prefix}{offset:020d}"

    def segment(self, offset: int) -> SegmentKey:
        """The segment at an offset."""
        return SegmentKey(self, offset)


@dataclass(frozen=True, slots=True, order=True)
class SegmentKey:
    """Where a segment is: its identity for ever."""

    shard: Shard
    offset: int

    @property
    def path(self) -> str:
        """Its object key."""
        return f"{self.shard.before(self.offset)}.parquet"

    def __str__(self) -> str:
        return f"{self.shard.topic}/{self.shard.number}@{self.offset}"


@dataclass(frozen=True, slots=True, order=True)
class Boundary:
    """A marker: segments of its shard up to and including ``offset`` are gone or going."""

    shard: Shard
    offset: int

    @property
    def path(self) -> str:
        """Its object key."""
        return f"{self.shard.before(self.offset)}.boundary"


def registrations(topic: str) -> str:
    """The folder that lists a topic's shards."""
    return f"{ROOT}/{topic}/shards/"


def parse(path: str) -> SegmentKey | Boundary | None:
    """The meaning of an object key in a shard's folder; None if it has none."""
    match = _KEY.fullmatch(path)
    if match is None:
        return None
    topic, number, offset, kind = match.groups()
    shard = Shard(topic, int(number))
    return SegmentKey(shard, int(offset)) if kind == "parquet" else Boundary(shard, int(offset))


@dataclass(frozen=True, slots=True)
class Position(Mapping[int, int]):
    """A topic's position: shard -> last offset applied. A shard that is not in it stands at -1."""

    offsets: Mapping[int, int] = field(default_factory=dict)

    def __getitem__(self, shard: int) -> int:
        return self.offsets.get(shard, -1)

    def __contains__(self, shard: object) -> bool:
        return shard in self.offsets

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.offsets))

    def __len__(self) -> int:
        return len(self.offsets)

    def __str__(self) -> str:
        return self.to_json()

    def advanced(self, shard: int, offset: int) -> Position:
        """This position with one shard moved on.

        Raises:
            WalError: that would move it back.
        """
        if offset < self[shard]:
            raise WalError(f"position of shard {shard} would move back from {self[shard]} to {offset}")
        return Position({**self.offsets, shard: offset})

    def covers(self, other: Mapping[int, int]) -> bool:
        """Whether every shard stands at least where it stands in ``other``."""
        return all(self[shard] >= offset for shard, offset in other.items())

    def to_json(self) -> str:
        """Canonical text, as stored in a table's properties."""
        return json.dumps({str(shard): self.offsets[shard] for shard in self}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Position:
        """The inverse of ``to_json``.

        Raises:
            WalError: not a position.
        """
        try:
            offsets = json.loads(text)
        except ValueError as error:
            raise WalError(f"not a WAL position: {text!r}") from error
        if not isinstance(offsets, dict) or not all(
            shard.isdecimal() and type(offset) is int for shard, offset in offsets.items()
        ):
            raise WalError(f"not a WAL position: {text!r}")
        return cls({int(shard): offset for shard, offset in offsets.items()})
