"""Read the log after a position: all of it or a loud error, never a silently shorter answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from icegate.errors import SegmentCorrupt, SegmentMissing, StaleCut
from icegate.wal import segment as segments
from icegate.wal.keys import SHARD, Boundary, Position, SegmentKey, Shard, parse, registrations

if TYPE_CHECKING:
    from icegate.storage import ObjectStore
    from icegate.wal.segment import Footer, Segment

# One read that holds most footers whole; a larger one costs a second.
_FOOTER_GUESS: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Listed:
    """A segment as a listing shows it; ``size`` in bytes."""

    key: SegmentKey
    size: int


@dataclass(frozen=True, slots=True)
class Tail:
    """The segments of a topic after ``start``: per shard an unbroken run, in offset order."""

    topic: str
    start: Position
    segments: tuple[Listed, ...]

    @property
    def end(self) -> Position:
        """The position once all of these are applied."""
        position = self.start
        for each in self.segments:
            position = position.advanced(each.key.shard.number, each.key.offset)
        return position


def shards(store: ObjectStore, topic: str) -> list[Shard]:
    """The topic's shards, by number."""
    prefix = registrations(topic)
    names = (info.key.removeprefix(prefix) for info in store.list_after(prefix))
    return [Shard(topic, int(name)) for name in names if SHARD.fullmatch(name)]


def list_tail(store: ObjectStore, topic: str, position: Position, *, settle: bool = False) -> Tail:
    """List a topic after a position.

    Args:
        store: the object store.
        topic: the WAL topic.
        position: where the caller's table stands.
        settle: return once what was listed is durable; a plan that will be committed needs it.

    Raises:
        SegmentMissing: a hole.
        StaleCut: the log was cleaned past ``position``.
    """
    found: list[Listed] = []
    for shard in shards(store, topic):
        try:
            found += _run(store, shard, position[shard.number])
        except SegmentMissing:
            # A local folder may show n + 1 before n when both appear during the listing.
            found += _run(store, shard, position[shard.number])
        if settle:  # afterwards: a name that appeared in between would be listed, and not yet durable
            store.settle(shard.prefix)
    return Tail(topic, position, tuple(found))


def read_segment(store: ObjectStore, key: SegmentKey) -> Segment:
    """Read and decode a whole segment.

    Raises:
        ObjectNotFound: cleaned since it was listed.
        SegmentCorrupt, FormatTooNew: it cannot be used.
    """
    return segments.decode(store.get(key.path), str(key))


def read_footer(store: ObjectStore, key: SegmentKey) -> Footer:
    """Read a segment's footer only.

    Raises:
        ObjectNotFound: no such segment.
        SegmentCorrupt, FormatTooNew: it cannot be used.
    """
    footer = segments.read_footer(store.get(key.path, last=_FOOTER_GUESS), str(key))
    if isinstance(footer, int):
        footer = segments.read_footer(store.get(key.path, last=footer), str(key))
    if isinstance(footer, int):
        raise SegmentCorrupt(f"segment {key} is shorter than its footer says")
    return footer


def _run(store: ObjectStore, shard: Shard, after: int) -> list[Listed]:
    run: list[Listed] = []
    for info in store.list_after(shard.prefix, shard.before(after + 1)):
        match parse(info.key):
            case Boundary() as marker:
                raise StaleCut(
                    f"{shard.topic}/{shard.number} was cleaned up to {marker.offset}, past position {after}:"
                    " read the table again"
                )
            case SegmentKey() as key:
                run.append(Listed(key, info.size))
    # Only now: below a marker holes are no fault.
    for expected, each in enumerate(run, after + 1):
        if each.key.offset != expected:
            raise SegmentMissing(f"{shard.topic}/{shard.number}: offset {expected} is missing before {each.key.offset}")
    return run
