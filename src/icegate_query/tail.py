"""The tail: segments of the log, decoded once and kept apart by tenant and table.

A segment never changes, so its decoded rows are cached by its key, up to a number of bytes; the least recently
used go first. Rows of different tenants never share a buffer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from icegate.errors import SegmentCorrupt
from icegate.tables import TABLES, Rows
from icegate.wal import read_segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Executor, Future

    from icegate.storage import ObjectStore
    from icegate.tables import Table
    from icegate.wal import Listed, Segment, SegmentKey, TenantRows
    from icegate_query.bounds import Bounds
    from icegate_query.cut import TableCut

#: Larger batches made lookups in attributes several times slower.
_BATCH_ROWS: Final = 8192
#: Segments read ahead of the one being used: bounds what a long tail holds beyond the cache.
_WINDOW: Final = 16
#: Footers kept of segments whose rows are not: they say without a read that a segment has nothing for a tenant.
_FOOTERS_KEPT: Final = 100_000


@dataclass(frozen=True, slots=True)
class _RowsKey:
    """Whose rows, of which table, from which segment."""

    segment: SegmentKey
    tenant: str
    table: str


@dataclass(frozen=True, slots=True)
class _Decoded:
    tenants: Mapping[str, TenantRows]
    rows: Mapping[_RowsKey, tuple[pa.RecordBatch, ...]] = field(repr=False)


class TailCache:
    """Decoded segments. Thread-safe; a segment that two queries want at once is read once.

    Args:
        store: where the log is.
        readers: the threads that read and decode; closing them is the caller's.
        max_bytes: Arrow bytes to keep; a tail beyond that is decoded again by every query.
    """

    def __init__(self, store: ObjectStore, readers: Executor, max_bytes: int) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        self._rows: OrderedDict[_RowsKey, tuple[pa.RecordBatch, ...]] = OrderedDict()
        self._footers: OrderedDict[SegmentKey, Mapping[str, TenantRows]] = OrderedDict()
        self._reading: dict[SegmentKey, Future[_Decoded]] = {}
        self._readers = readers

    @property
    def cached_bytes(self) -> int:
        """Arrow bytes that are held."""
        return self._bytes

    def batches(self, cut: TableCut, tenant: str, bounds: Bounds) -> list[pa.RecordBatch]:
        """A tenant's rows of a table in the cut's tail, leaving out segments with none within the bounds.

        Raises:
            ObjectNotFound: a segment was cleaned since it was listed.
            SegmentCorrupt, FormatTooNew: a segment cannot be used; the message names its offset.
        """
        found: list[pa.RecordBatch] = []
        segments = iter(cut.tail)
        while window := list(islice(segments, _WINDOW)):
            pending = [(each.key, self._lookup(each, cut.table, tenant, bounds)) for each in window]
            for key, rows in pending:
                if isinstance(rows, tuple):
                    found += rows
                    continue
                decoded = rows.result()
                if _matters(decoded.tenants, cut.table, tenant, bounds):
                    found += decoded.rows[_RowsKey(key, tenant, cut.table.name)]
        return found

    def _lookup(
        self, listed: Listed, table: Table, tenant: str, bounds: Bounds
    ) -> tuple[pa.RecordBatch, ...] | Future[_Decoded]:
        """The rows if they are known, else the read that will tell."""
        rows_key = _RowsKey(listed.key, tenant, table.name)
        with self._lock:
            footer = self._footers.get(listed.key)
            if footer is not None and not _matters(footer, table, tenant, bounds):
                return ()
            rows = self._rows.get(rows_key)
            if rows is not None:
                self._rows.move_to_end(rows_key)
                return rows
            reading = self._reading.get(listed.key)
            if reading is None:
                reading = self._reading[listed.key] = self._readers.submit(self._read, listed.key)
            return reading

    def _read(self, key: SegmentKey) -> _Decoded:
        try:
            decoded = _split(key, read_segment(self._store, key))
        except (KeyError, pa.ArrowException) as error:
            raise SegmentCorrupt(f"segment {key} does not hold the columns of its topic: {error}") from error
        else:
            self._keep(key, decoded)
            return decoded
        finally:
            with self._lock:
                self._reading.pop(key, None)

    def _keep(self, key: SegmentKey, decoded: _Decoded) -> None:
        with self._lock:
            self._footers[key] = decoded.tenants
            if len(self._footers) > _FOOTERS_KEPT:
                self._footers.popitem(last=False)
            for rows_key, batches in decoded.rows.items():
                self._bytes += _size(batches) - _size(self._rows.pop(rows_key, ()))
                self._rows[rows_key] = batches
            while self._bytes > self._max_bytes:
                self._bytes -= _size(self._rows.popitem(last=False)[1])


def _matters(tenants: Mapping[str, TenantRows], table: Table, tenant: str, bounds: Bounds) -> bool:
    mine = tenants.get(tenant)
    return (
        mine is not None
        and mine.tables.get(table.name, 0) > 0
        and bounds.overlaps(mine.min_timestamp, mine.max_timestamp)
    )


def _split(key: SegmentKey, segment: Segment) -> _Decoded:
    """The rows of every tenant and table of the topic, each in buffers of its own."""
    rows = {
        _RowsKey(key, mine.tenant, table.name): tuple(_batches_of(key, segment, mine, table))
        for mine in segment.footer.tenants
        for table in TABLES.values()
        if table.topic == key.shard.topic and mine.tables.get(table.name, 0)
    }
    return _Decoded({each.tenant: each for each in segment.footer.tenants}, rows)


def _batches_of(key: SegmentKey, segment: Segment, mine: TenantRows, table: Table) -> Iterator[pa.RecordBatch]:
    source = segment.rows_of(mine.tenant)
    chosen = source.filter(_mask(source, table))  # a copy, of this tenant's bytes only
    if chosen.num_rows != mine.tables[table.name]:
        raise SegmentCorrupt(
            f"segment {key} holds {chosen.num_rows} rows of table {table.name},"
            f" its footer says {mine.tables[table.name]}"
        )
    origin = {
        "wal_shard": pa.repeat(pa.scalar(key.shard.number, pa.int32()), chosen.num_rows),
        "wal_offset": pa.repeat(pa.scalar(key.offset, pa.int64()), chosen.num_rows),
    }
    columns = [
        origin[each.name] if each.from_log else chosen.column(each.name).cast(each.type) for each in table.columns
    ]
    yield from pa.Table.from_arrays(columns, schema=table.schema).to_batches(max_chunksize=_BATCH_ROWS)


def _mask(source: pa.Table, table: Table) -> pa.ChunkedArray | pa.Array:
    match table.rows:
        case Rows.ALL:
            return pa.repeat(pa.scalar(True), source.num_rows)
        case Rows.WITH_EVENT_NAME:
            return source.column("event_name").is_valid()
        case Rows.WITHOUT_EVENT_NAME:
            return source.column("event_name").is_null()


def _size(batches: tuple[pa.RecordBatch, ...]) -> int:
    return sum(each.nbytes for each in batches)
