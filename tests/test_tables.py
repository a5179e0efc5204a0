"""The table definitions, against what the design promises of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from icegate.tables import EVENTS, LOGS, METRICS, SPANS, TABLES, TOPICS, segment_schema

COMMON = [
    "tenant_id", "timestamp", "time_unix_nano", "service_name", "trace_id", "span_id", "attributes",
    "resource_attributes", "scope_attributes", "scope_name", "scope_version", "ingested_at", "wal_shard", "wal_offset",
]  # fmt: skip
OWN = {
    "logs": ["observed_time_unix_nano", "severity_number", "severity_text", "body", "event_name", "flags"],
    "events": ["observed_time_unix_nano", "severity_number", "severity_text", "body", "event_name", "flags"],
    "spans": ["parent_span_id", "name", "kind", "trace_state", "end_time_unix_nano", "duration_nano", "status_code",
              "status_message", "flags", "events", "links", "dropped_attributes_count", "dropped_events_count",
              "dropped_links_count"],
    "metrics": ["metric_name", "metric_type", "description", "unit", "temporality", "is_monotonic",
                "start_time_unix_nano", "value_double", "value_int", "count", "sum", "min", "max", "bucket_counts",
                "explicit_bounds", "scale", "zero_count", "zero_threshold", "positive_offset",
                "positive_bucket_counts", "negative_offset", "negative_bucket_counts", "quantiles", "exemplars",
                "flags"],
}  # fmt: skip


def test_there_are_four_tables_on_three_topics() -> None:
    assert {name: table.topic for name, table in TABLES.items()} == {
        "logs": "logs",
        "events": "logs",
        "spans": "traces",
        "metrics": "metrics",
    }
    assert TOPICS == ("logs", "traces", "metrics")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_columns_it_should(name: str) -> None:
    table = TABLES[name]
    columns = [column.name for column in table.columns]
    assert len(set(columns)) == len(columns)
    assert set(COMMON) | set(OWN[name]) <= set(columns)
    assert all(column.doc for column in table.columns)
    assert table.schema.names == columns


@pytest.mark.parametrize("name", TABLES)
def test_only_what_every_row_has_is_required(name: str) -> None:
    schema = TABLES[name].schema
    required = {field.name for field in schema if not field.nullable}
    assert required == {"tenant_id", "timestamp", "ingested_at", "wal_shard", "wal_offset"}
    assert schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    for attributes in ("attributes", "resource_attributes", "scope_attributes"):
        assert schema.field(attributes).type == pa.map_(pa.string(), pa.string())


@pytest.mark.parametrize("name", TABLES)
def test_a_segment_lacks_only_what_its_offset_tells(name: str) -> None:
    table = TABLES[name]
    assert [n for n in table.schema.names if n not in table.segment_schema.names] == ["wal_shard", "wal_offset"]
    assert segment_schema(table.topic) == table.segment_schema


def test_sort_orders_and_bloom_filters() -> None:
    orders: dict[str, Any] = {name: table.sort_by for name, table in TABLES.items()}
    assert orders == {
        "logs": ("service_name", "timestamp"),
        "events": ("service_name", "timestamp"),
        "spans": ("trace_id", "timestamp"),
        "metrics": ("metric_name", "service_name", "timestamp"),
    }
    assert {name: table.bloom_filters for name, table in TABLES.items() if table.bloom_filters} == {
        "spans": ("trace_id",)
    }


def test_every_row_of_topic_logs_is_in_exactly_one_table() -> None:
    from datafusion import SessionContext

    context = SessionContext()
    rows = pa.table({"event_name": pa.array([None, "", "login", None])})
    context.from_arrow(rows, name="rows")
    counts = {
        table.name: context.sql(f"SELECT count(*) AS n FROM rows WHERE {table.predicate}").to_pylist()[0]["n"]
        for table in (LOGS, EVENTS)
    }
    assert counts == {"logs": 2, "events": 2}
    assert SPANS.predicate is None
    assert METRICS.predicate is None
