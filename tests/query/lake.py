"""A small lake made with the real pieces, and in plain Python what each table must hold."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import parquet_file_to_data_file

from icegate.catalog.open import identifier, open_catalog
from icegate.catalog.position import base_of
from icegate.catalog.publish import publish
from icegate.clock import SystemClock
from icegate.tables import TABLES, segment_schema
from icegate.wal import Appender, Batch, Position, SegmentKey, Shard, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from icegate.catalog.open import CatalogOptions
    from icegate.storage import Location
    from icegate_query import Answer

Row = dict[str, Any]

START = datetime(2026, 3, 1, tzinfo=UTC)


def log_row(tenant: str, body: str, at: datetime = START, **more: Any) -> Row:
    return {
        "tenant_id": tenant,
        "timestamp": at,
        "ingested_at": START,
        "body": body,
        "attributes": {"k": body, "unset": None},
        **more,
    }


def random_logs(rng: random.Random, tenants: Sequence[str], count: int) -> list[Row]:
    return [
        log_row(
            rng.choice(tenants),
            f"message {rng.getrandbits(32):08x}",
            START + timedelta(seconds=rng.randrange(5 * 86_400), microseconds=rng.randrange(1_000_000)),
            event_name=rng.choice([None, None, "login", ""]),
            severity_number=rng.randrange(25),
            service_name=rng.choice([None, "api", "worker"]),
            trace_id=f"{rng.randrange(5):032x}",
        )
        for _ in range(count)
    ]


def random_spans(rng: random.Random, tenants: Sequence[str], count: int) -> list[Row]:
    return [
        {
            "tenant_id": rng.choice(tenants),
            "timestamp": START + timedelta(seconds=rng.randrange(86_400)),
            "ingested_at": START,
            "trace_id": f"{rng.randrange(5):032x}",
            "name": rng.choice(["GET /", "SELECT"]),
            "duration_nano": rng.randrange(1 << 53, 1 << 60),
            "events": [{"time_unix_nano": 1, "name": "e", "attributes": {"a": "b"}, "dropped_attributes_count": 0}],
        }
        for _ in range(count)
    ]


def arrow(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows as Arrow; maps may be given as dicts."""
    return pa.Table.from_pylist([{name: _pairs(value) for name, value in row.items()} for row in rows], schema=schema)


def rows_of(answer: Answer) -> list[Row]:
    table, truncated = answer.collect()
    assert not truncated
    return table.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Rows without their nulls, in an order of their own: answers promise none."""
    return sorted(({name: value for name, value in row.items() if value is not None} for row in rows), key=repr)


class Lake:
    """A location with its catalog. ``rows`` remembers what was appended, by topic."""

    def __init__(self, location: Location, options: CatalogOptions | None = None) -> None:
        self.location = location
        self.store = location.open_store()
        self.catalog = open_catalog(location, options)
        self.rows: dict[str, list[Row]] = {"logs": [], "traces": [], "metrics": []}
        self._appenders: dict[Shard, Appender] = {}

    def append(self, topic: str, rows: Sequence[Row], *, shard: int = 0) -> SegmentKey:
        segment = encode(
            topic,
            arrow(rows, segment_schema(topic)),
            [Batch(row["tenant_id"], 1) for row in rows],
            attempt=str(uuid.uuid4()),
            writer="test",
            created=0,
        )
        place = Shard(topic, shard)
        appender = self._appenders.setdefault(
            place, Appender(self.store, place, clock=SystemClock(), random=random.Random(0))
        )
        key = appender.append(segment, timeout=10)
        self.rows[topic] += [{**row, "wal_shard": shard, "wal_offset": key.offset} for row in rows]
        return key

    def expected(self, table: str, tenant: str) -> list[Row]:
        """What a tenant must see of a table."""
        return [row for row in self._all_of(table) if row["tenant_id"] == tenant]

    def compact(self, table: str, end: Position) -> None:
        """Move the rows up to ``end`` into Iceberg, with the position, in one commit."""
        definition = TABLES[table]
        iceberg = self.catalog.load_table(identifier(definition))
        base = base_of(iceberg)
        moved = [
            row
            for row in self._all_of(table)
            if base.position[row["wal_shard"]] < row["wal_offset"] <= end[row["wal_shard"]]
        ]
        files: dict[str, list[Row]] = {}
        for row in moved:
            folder = f"tenant_id={row['tenant_id']}/timestamp_day={row['timestamp']:%Y-%m-%d}"
            files.setdefault(
                f"{iceberg.location()}/data/{folder}/{uuid.uuid5(uuid.NAMESPACE_URL, end.to_json())}.parquet", []
            ).append(row)
        for uri, rows in files.items():
            with iceberg.io.new_output(uri).create() as stream:
                pq.write_table(arrow(rows, definition.schema), stream, compression="zstd")
        staged = [parquet_file_to_data_file(iceberg.io, iceberg.metadata, uri) for uri in files]
        publish(self.catalog, definition, base, staged, end)

    def files(self, table: str) -> list[str]:
        """Addresses of the table's data files."""
        return [task.file.file_path for task in self.catalog.load_table(identifier(TABLES[table])).scan().plan_files()]

    def rewrite(self, table: str) -> None:
        """Put every data file into the table anew, under another name, and take the old ones out."""
        iceberg = self.catalog.load_table(identifier(TABLES[table]))
        with iceberg.transaction() as transaction, transaction.update_snapshot().overwrite() as change:
            for task in iceberg.scan().plan_files():
                copy = task.file.file_path.replace(".parquet", "-again.parquet")
                with (
                    iceberg.io.new_input(task.file.file_path).open() as old,
                    iceberg.io.new_output(copy).create() as new,
                ):
                    new.write(old.read())
                change.delete_data_file(task.file)
                change.append_data_file(parquet_file_to_data_file(iceberg.io, iceberg.metadata, copy))

    def close(self) -> None:
        self.catalog.close()

    def _all_of(self, table: str) -> list[Row]:
        rows = self.rows[TABLES[table].topic]
        if table == "logs":
            return [row for row in rows if row.get("event_name") is None]
        if table == "events":
            return [row for row in rows if row.get("event_name") is not None]
        return rows


def _pairs(value: Any) -> Any:
    if isinstance(value, dict):
        return [(key, _pairs(each)) for key, each in value.items()]
    if isinstance(value, list):
        return [
            {name: _pairs(each) for name, each in item.items()} if isinstance(item, dict) else item for item in value
        ]
    return value
