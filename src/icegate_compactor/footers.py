"""What planning needs of a segment's footer, read once for all tables that are fed from the segment."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from icegate.wal import SegmentKey, read_footer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from icegate.storage import ObjectStore
    from icegate.wal import Listed

_THREADS: Final = 16
#: A few hundred bytes each, times the tenants in a segment.
_KEPT: Final = 20_000


@dataclass(frozen=True, slots=True)
class Share:
    """A tenant's run of rows in a segment, and how many of them each table takes."""

    tenant: str
    first_row: int
    rows: int
    tables: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Contents:
    """Whose rows a segment holds; ``size`` in bytes."""

    key: SegmentKey
    size: int
    rows: int
    shares: tuple[Share, ...]


class Footers:
    """A cache of segments' contents. Segments never change, so it only forgets the least recently used."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._kept: OrderedDict[SegmentKey, Contents] = OrderedDict()

    def read(self, segments: Sequence[Listed]) -> list[Contents]:
        """The contents of each segment, in the order given.

        Raises:
            ObjectNotFound: a segment was cleaned since it was listed.
            SegmentCorrupt, FormatTooNew: a segment cannot be used.
        """
        missing = [each for each in segments if each.key not in self._kept]
        if missing:
            with ThreadPoolExecutor(min(_THREADS, len(missing)), "icegate-footers") as pool:
                read = {contents.key: contents for contents in pool.map(self._read, missing)}
        else:
            read = {}
        found = [read.get(each.key) or self._kept[each.key] for each in segments]
        for contents in found:
            self._kept[contents.key] = contents
            self._kept.move_to_end(contents.key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return found

    def _read(self, segment: Listed) -> Contents:
        footer = read_footer(self._store, segment.key)
        shares = tuple(Share(t.tenant, t.first_row, t.rows, t.tables) for t in footer.tenants)
        return Contents(segment.key, segment.size, footer.rows, shares)
