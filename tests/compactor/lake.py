"""A log with known rows, the tables they go into, and what those should hold then."""

from __future__ import annotations

import uuid
from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from icegate.catalog.open import CatalogOptions, identifier, open_catalog
from icegate.catalog.position import base_of
from icegate.clock import SystemClock
from icegate.tables import TABLES, segment_schema
from icegate.wal import Appender, Batch, Encoded, SegmentKey, Shard, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table as IcebergTable

    from icegate.storage import Location

DAY = 86_400_000_000
#: 2023-11-14 00:00 UTC, microseconds.
EPOCH = 19_675 * DAY

Row = dict[str, Any]


def log(tenant: str, name: str, at: int = 0, **more: Any) -> Row:
    """A log record; ``at`` in microseconds after ``EPOCH``."""
    return {
        "tenant_id": tenant,
        "timestamp": EPOCH + at,
        "ingested_at": EPOCH + 5 * DAY,
        "body": name,
        "attributes": [("id", name), ("unset", None)],
        **more,
    }


def event(tenant: str, name: str, at: int = 0, **more: Any) -> Row:
    """A log record with an event name."""
    return log(tenant, name, at, event_name="deployed", **more)


def span(tenant: str, name: str, at: int = 0, **more: Any) -> Row:
    """A span with an event and a link."""
    return {
        "tenant_id": tenant,
        "timestamp": EPOCH + at,
        "ingested_at": EPOCH + 5 * DAY,
        "name": name,
        "trace_id": uuid.uuid5(uuid.NAMESPACE_URL, name).hex,
        "events": [
            {"time_unix_nano": 7, "name": "e", "attributes": [("k", "v")], "dropped_attributes_count": 1},
        ],
        "links": [],
        **more,
    }


def point(tenant: str, name: str, at: int = 0, **more: Any) -> Row:
    """A histogram point with an exemplar."""
    exemplar = {"time_unix_nano": 3, "value_double": 0.5, "value_int": None, "trace_id": "ab", "span_id": None}
    return {
        "tenant_id": tenant,
        "timestamp": EPOCH + at,
        "ingested_at": EPOCH + 5 * DAY,
        "metric_name": name,
        "metric_type": "histogram",
        "bucket_counts": [1, 2, 3],
        "explicit_bounds": [0.5, 1.5],
        "exemplars": [{**exemplar, "filtered_attributes": [("k", None)]}],
        **more,
    }


class Lake:
    """Appends segments and remembers, in plain Python, each table's rows."""

    def __init__(self, location: Location, catalog_options: CatalogOptions | None = None) -> None:
        self.location = location
        self.catalog_options = catalog_options or CatalogOptions()
        self.catalog = open_catalog(location, self.catalog_options)
        self.store = location.open_store()
        self.expected: dict[str, list[Row]] = defaultdict(list)
        self._appenders: dict[Shard, Appender] = {}

    def append(self, topic: str, shard: int, rows: Sequence[Row]) -> SegmentKey:
        """Make rows a segment."""
        encoded = encode(
            topic,
            pa.Table.from_pylist(list(rows), schema=segment_schema(topic)),
            [Batch(row["tenant_id"], 1) for row in rows],
            attempt=str(uuid.uuid4()),
            writer="test",
            created=EPOCH,
        )
        key = self.append_encoded(topic, shard, encoded)
        for row in rows:
            table = {"logs": "events" if row.get("event_name") else "logs", "traces": "spans", "metrics": "metrics"}
            place = {"wal_shard": shard, "wal_offset": key.offset}
            self.expected[table[topic]].append(dict.fromkeys(TABLES[table[topic]].schema.names) | row | place)
        return key

    def append_encoded(self, topic: str, shard: int, encoded: Encoded) -> SegmentKey:
        """Append a segment as it is; its rows are not expected anywhere."""
        at = Shard(topic, shard)
        if at not in self._appenders:
            self._appenders[at] = Appender(self.store, at, clock=SystemClock(), random=Random(0))
        return self._appenders[at].append(encoded, timeout=30)

    def table(self, name: str) -> IcebergTable:
        return self.catalog.load_table(identifier(TABLES[name]))

    def rows(self, name: str) -> list[Row]:
        """A table's rows as its files hold them (pyiceberg's scan makes a null list of structs an empty one)."""
        return [row for _, content in files_of(self.table(name)) for row in with_times(content).to_pylist()]

    def position(self, name: str) -> dict[int, int]:
        return dict(base_of(self.table(name)).position)

    def snapshots(self, name: str) -> int:
        return len(self.table(name).metadata.snapshots)

    def check(self) -> None:
        """Each table holds exactly its rows."""
        for name in TABLES:
            assert by_place(self.rows(name)) == by_place(self.expected[name]), name


def by_place(rows: Sequence[Row]) -> list[Row]:
    """In an order that two equal bags of rows share."""
    return sorted(rows, key=repr)


def with_times(content: pa.Table) -> pa.Table:
    """Timestamps as microseconds."""
    for time in ("timestamp", "ingested_at"):
        content = content.set_column(content.schema.get_field_index(time), time, content[time].cast(pa.int64()))
    return content


def files_of(table: IcebergTable) -> list[tuple[str, pa.Table]]:
    """A table's files: address and content."""
    found = []
    for path in sorted(task.file.file_path for task in table.scan().plan_files()):
        with table.io.new_input(path).open() as file:
            found.append((path, pq.ParquetFile(file).read()))
    return found
