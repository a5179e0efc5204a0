"""A segment: one Parquet file sorted by tenant, with an index of its rows in the footer.

The footer's key ``icegate`` holds JSON. Unknown fields are ignored, an unknown ``format`` is refused: whoever cannot
read all of a segment must not read part of it.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icegate.errors import FormatTooNew, SegmentCorrupt
from icegate.tables import TABLES, Rows, segment_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORMAT: Final = 1
FOOTER_KEY: Final = "icegate"
#: A tenant with at least so many rows gets row groups of its own; smaller ones share.
OWN_ROW_GROUP: Final = 4096
ROW_GROUP_ROWS: Final = 65_536

# Values that hardly repeat: a dictionary costs time there and saves nothing.
_DISTINCT: Final = frozenset({"body", "trace_id", "span_id", "parent_span_id", "duration_nano"})
_STATISTICS: Final = ("tenant_id", "timestamp", "event_name", "service_name")


@dataclass(frozen=True, slots=True)
class Batch:
    """One request's rows within a segment. ``key``: an identity its sender declared, if any."""

    tenant: str
    rows: int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class TenantRows:
    """A tenant's share of a segment: one run of rows, since a segment is sorted by tenant.

    Timestamps are microseconds since the epoch; ``tables`` counts the rows of each table fed from the topic.
    """

    tenant: str
    first_row: int
    rows: int
    min_timestamp: int
    max_timestamp: int
    tables: Mapping[str, int]
    batches: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True)
class Footer:
    """What a segment says of itself."""

    topic: str
    attempt: str
    writer: str
    created: int
    rows: int
    tenants: tuple[TenantRows, ...]
    format: int = FORMAT

    def to_json(self) -> str:
        """The footer's text."""
        return json.dumps(
            {
                "format": self.format,
                "topic": self.topic,
                "attempt": self.attempt,
                "writer": self.writer,
                "created": self.created,
                "rows": self.rows,
                "tenants": [
                    {
                        "tenant": t.tenant,
                        "first_row": t.first_row,
                        "rows": t.rows,
                        "min_timestamp": t.min_timestamp,
                        "max_timestamp": t.max_timestamp,
                        "tables": dict(t.tables),
                        "batches": [{"rows": b.rows} | ({"key": b.key} if b.key else {}) for b in t.batches],
                    }
                    for t in self.tenants
                ],
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: bytes | str, name: str) -> Footer:
        """Parse a footer; ``name`` says in errors which segment it is.

        Raises:
            FormatTooNew: written by a newer version.
            SegmentCorrupt: not a footer.
        """
        try:
            raw: dict[str, Any] = json.loads(text)
            if raw["format"] > FORMAT:
                raise FormatTooNew(
                    f"segment {name} has format {raw['format']}; this version reads up to {FORMAT}: upgrade it"
                )
            return cls(
                topic=raw["topic"],
                attempt=raw["attempt"],
                writer=raw["writer"],
                created=raw["created"],
                rows=raw["rows"],
                tenants=tuple(
                    TenantRows(
                        tenant=t["tenant"],
                        first_row=t["first_row"],
                        rows=t["rows"],
                        min_timestamp=t["min_timestamp"],
                        max_timestamp=t["max_timestamp"],
                        tables=t["tables"],
                        batches=tuple(Batch(t["tenant"], b["rows"], b.get("key")) for b in t["batches"]),
                    )
                    for t in raw["tenants"]
                ),
                format=raw["format"],
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SegmentCorrupt(f"segment {name} has no readable IceGate footer: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Segment:
    """A decoded segment: its footer and its rows, sorted by tenant."""

    footer: Footer
    table: pa.Table = field(repr=False)

    def rows_of(self, tenant: str) -> pa.Table:
        """One tenant's rows (zero-copy)."""
        for each in self.footer.tenants:
            if each.tenant == tenant:
                return self.table.slice(each.first_row, each.rows)
        return self.table.slice(0, 0)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A segment ready to be appended. ``attempt`` is inside ``data`` as well."""

    footer: Footer
    data: bytes = field(repr=False)

    @property
    def attempt(self) -> str:
        """The identity of this append."""
        return self.footer.attempt


def encode(
    topic: str, table: pa.Table, batches: Sequence[Batch], *, attempt: str, writer: str, created: int
) -> Encoded:
    """Encode rows as one segment.

    Args:
        topic: the WAL topic.
        table: rows in ``segment_schema(topic)``, at least one, in the order of ``batches``.
        batches: the requests that the rows came in; their rows add up to the table's.
        attempt: identity of this append.
        writer: name of the writing process.
        created: microseconds since the epoch.

    Raises:
        ValueError: no rows, or not those that ``batches`` say.
    """
    if not 0 < table.num_rows == sum(batch.rows for batch in batches):
        raise ValueError(f"{table.num_rows} rows, and batches of {[batch.rows for batch in batches]}")
    by_tenant: dict[str, list[Batch]] = {}
    for batch in batches:
        if batch.rows:
            by_tenant.setdefault(batch.tenant, []).append(batch)
    if len(by_tenant) > 1:
        table = table.take(pc.sort_indices(table, sort_keys=[("tenant_id", "ascending")]))
    tenants = _tenant_rows(topic, table, by_tenant)
    footer = Footer(topic, attempt, writer, created, table.num_rows, tenants)
    return Encoded(footer, _write(topic, table, footer))


def read_footer(tail: bytes, name: str) -> Footer | int:
    """The footer, from a segment's last bytes; or how many last bytes are needed, if these are too few.

    Raises:
        SegmentCorrupt: not a Parquet file of ours.
    """
    if len(tail) < 8 or tail[-4:] != b"PAR1":  # noqa: PLR2004 - length field and magic number
        raise SegmentCorrupt(f"segment {name} is not a Parquet file")
    needed = struct.unpack("<I", tail[-8:-4])[0] + 8
    if needed > len(tail):
        return int(needed)
    try:
        metadata = pq.read_metadata(pa.BufferReader(b"PAR1" + tail[-needed:])).metadata or {}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SegmentCorrupt(f"segment {name} has an unreadable Parquet footer: {error}") from error
    return Footer.from_json(metadata.get(FOOTER_KEY.encode(), b"null"), name)


def decode(data: bytes, name: str) -> Segment:
    """Decode a whole segment; ``name`` says in errors which one it is.

    Raises:
        FormatTooNew: written by a newer version.
        SegmentCorrupt: not a segment of ours.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        footer = Footer.from_json((file.metadata.metadata or {}).get(FOOTER_KEY.encode(), b"null"), name)
        table = file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SegmentCorrupt(f"segment {name} cannot be decoded: {error}") from error
    if table.num_rows != footer.rows:
        raise SegmentCorrupt(f"segment {name} holds {table.num_rows} rows, its footer says {footer.rows}")
    return Segment(footer, table)


def _tenant_rows(topic: str, table: pa.Table, by_tenant: Mapping[str, list[Batch]]) -> tuple[TenantRows, ...]:
    names = sorted(by_tenant)  # by code point, which is how Arrow sorts UTF-8
    counts = np.array([sum(b.rows for b in by_tenant[name]) for name in names])
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    times = table.column("timestamp").cast(pa.int64()).to_numpy()
    lowest, highest = np.minimum.reduceat(times, starts), np.maximum.reduceat(times, starts)
    tables = _rows_per_table(topic, table, starts)
    return tuple(
        TenantRows(
            tenant=name,
            first_row=int(starts[i]),
            rows=int(counts[i]),
            min_timestamp=int(lowest[i]),
            max_timestamp=int(highest[i]),
            tables={table_name: int(rows[i]) for table_name, rows in tables.items()},
            batches=tuple(by_tenant[name]),
        )
        for i, name in enumerate(names)
    )


def _rows_per_table(topic: str, table: pa.Table, starts: np.ndarray) -> dict[str, np.ndarray]:
    counts = {}
    for each in TABLES.values():
        if each.topic != topic:
            continue
        if each.rows is Rows.ALL:
            mask = np.ones(table.num_rows, dtype=np.int64)
        else:
            named = table.column("event_name").is_valid().to_numpy().astype(np.int64)
            mask = named if each.rows is Rows.WITH_EVENT_NAME else 1 - named
        counts[each.name] = np.add.reduceat(mask, starts)
    return counts


def _write(topic: str, table: pa.Table, footer: Footer) -> bytes:
    sink = pa.BufferOutputStream()
    writer = pq.ParquetWriter(
        sink,
        segment_schema(topic),
        compression="zstd",
        compression_level=1,
        use_dictionary=_repeating(segment_schema(topic)),
        write_statistics=[name for name in _STATISTICS if name in table.column_names],
        write_page_checksum=True,  # damage that still decodes would be other rows
        store_schema=False,  # readers know the schema; it would double the footer
    )
    with writer:
        for start, rows in _row_groups(footer.tenants):
            writer.write_table(table.slice(start, rows), row_group_size=ROW_GROUP_ROWS)
        writer.add_key_value_metadata({FOOTER_KEY: footer.to_json()})
    return bytes(sink.getvalue())


def _row_groups(tenants: Sequence[TenantRows]) -> list[tuple[int, int]]:
    groups: list[tuple[int, int]] = []
    shared = 0
    for each in tenants:
        if each.rows >= OWN_ROW_GROUP:
            if shared:
                groups.append((each.first_row - shared, shared))
            groups.append((each.first_row, each.rows))
            shared = 0
        else:
            shared += each.rows
            if shared >= OWN_ROW_GROUP:
                groups.append((each.first_row + each.rows - shared, shared))
                shared = 0
    if shared:
        last = tenants[-1]
        groups.append((last.first_row + last.rows - shared, shared))
    return groups


def _repeating(schema: pa.Schema) -> list[str]:
    """Leaf columns worth a dictionary, by Parquet path."""

    def leaves(path: str, kind: pa.DataType) -> list[str]:
        if pa.types.is_map(kind):
            value = [] if path == "attributes" else [f"{path}.key_value.value"]
            return [f"{path}.key_value.key", *value]
        if pa.types.is_list(kind):
            return leaves(f"{path}.list.element", kind.value_type)
        if pa.types.is_struct(kind):
            return [leaf for f in kind for leaf in leaves(f"{path}.{f.name}", f.type)]
        unique = path in _DISTINCT or path.endswith("_unix_nano") or pa.types.is_floating(kind)
        return [] if unique else [path]

    return [leaf for each in schema for leaf in leaves(each.name, each.type)]
