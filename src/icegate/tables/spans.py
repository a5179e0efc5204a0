"""Table ``spans``: one row a span."""

from __future__ import annotations

import pyarrow as pa

from icegate.tables.column import ATTRIBUTES, INT, LONG, STRING, Column, Table
from icegate.tables.common import HEAD, ORIGIN, TAIL, TRACE_CONTEXT

SPAN_EVENT = pa.struct(
    [
        pa.field("time_unix_nano", LONG),
        pa.field("name", STRING),
        pa.field("attributes", ATTRIBUTES),
        pa.field("dropped_attributes_count", LONG),
    ]
)

SPAN_LINK = pa.struct(
    [
        pa.field("trace_id", STRING),
        pa.field("span_id", STRING),
        pa.field("trace_state", STRING),
        pa.field("attributes", ATTRIBUTES),
        pa.field("dropped_attributes_count", LONG),
        pa.field("flags", LONG),
    ]
)

SPANS = Table(
    name="spans",
    topic="traces",
    doc="Spans of traces; timestamp is the start",
    columns=(
        *HEAD,
        *TRACE_CONTEXT,
        Column("parent_span_id", STRING, "Lower-case hex; null on a root span"),
        Column("trace_state", STRING, "W3C tracestate; null if empty"),
        Column("name", STRING, "Name of the operation"),
        Column("kind", INT, "0 unspecified, 1 internal, 2 server, 3 client, 4 producer, 5 consumer"),
        Column("end_time_unix_nano", LONG, "End; null if not sent"),
        Column("duration_nano", LONG, "End minus start; null if either is missing"),
        Column("status_code", INT, "0 unset, 1 ok, 2 error"),
        Column("status_message", STRING, "Null if empty"),
        Column("events", pa.list_(SPAN_EVENT), "Events within the span"),
        Column("links", pa.list_(SPAN_LINK), "Links to other spans"),
        *ORIGIN,
        Column("dropped_attributes_count", LONG, "Attributes the client dropped"),
        Column("dropped_events_count", LONG, "Events the client dropped"),
        Column("dropped_links_count", LONG, "Links the client dropped"),
        Column("flags", LONG, "W3C trace flags in the low 8 bits"),
        *TAIL,
    ),
    sort_by=("trace_id", "timestamp"),
    bloom_filters=("trace_id",),
)
