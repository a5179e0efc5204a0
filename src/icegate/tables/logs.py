"""Table ``logs``: log records without an event name."""

from __future__ import annotations

from icegate.tables.column import INT, LONG, STRING, Column, Rows, Table
from icegate.tables.common import HEAD, ORIGIN, TAIL, TRACE_CONTEXT

#: ``events`` has the same columns: both come from topic ``logs``.
COLUMNS = (
    *HEAD,
    Column("observed_time_unix_nano", LONG, "When the collector saw it; null if not sent"),
    *TRACE_CONTEXT,
    Column("severity_number", INT, "OTLP severity, 1-24; 0 = unspecified"),
    Column("severity_text", STRING, "Severity as the source calls it; null if empty"),
    Column("event_name", STRING, "Name of the event; null on plain logs"),
    Column("body", STRING, "The message; JSON if it is structured"),
    *ORIGIN,
    Column("dropped_attributes_count", LONG, "Attributes the client dropped"),
    Column("flags", LONG, "W3C trace flags in the low 8 bits"),
    *TAIL,
)

LOGS = Table(
    name="logs",
    topic="logs",
    doc="Log records without an event name",
    columns=COLUMNS,
    sort_by=("service_name", "timestamp"),
    rows=Rows.WITHOUT_EVENT_NAME,
)
