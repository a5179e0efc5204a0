"""Columns that every table has."""

from __future__ import annotations

from icegate.tables.column import ATTRIBUTES, INT, LONG, STRING, TIMESTAMP, Column

HEAD = (
    Column("tenant_id", STRING, "Tenant the row belongs to", required=True),
    Column(
        "timestamp",
        TIMESTAMP,
        "When it happened (UTC, microseconds); the time of receipt if the client gave none",
        required=True,
    ),
    Column("time_unix_nano", LONG, "The same, exact, as the client sent it; null if it sent none"),
    Column("service_name", STRING, "Resource attribute service.name"),
)

TRACE_CONTEXT = (
    Column("trace_id", STRING, "Lower-case hex; null if empty"),
    Column("span_id", STRING, "Lower-case hex; null if empty"),
)

ORIGIN = (
    Column("attributes", ATTRIBUTES, "The record's own attributes"),
    Column("resource_attributes", ATTRIBUTES, "Attributes of the resource that produced it"),
    Column("resource_schema_url", STRING, "Schema URL of the resource; null if empty"),
    Column("scope_name", STRING, "Instrumentation scope; null if empty"),
    Column("scope_version", STRING, "Version of the scope; null if empty"),
    Column("scope_attributes", ATTRIBUTES, "Attributes of the scope"),
    Column("scope_schema_url", STRING, "Schema URL of the scope's records; null if empty"),
)

TAIL = (
    Column("ingested_at", TIMESTAMP, "When the gateway received it", required=True),
    Column("wal_shard", INT, "WAL shard the row came through", required=True, from_log=True),
    Column("wal_offset", LONG, "WAL offset the row came through", required=True, from_log=True),
)
