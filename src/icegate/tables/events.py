"""Table ``events``: log records that carry an event name."""

from __future__ import annotations

from icegate.tables.column import Rows, Table
from icegate.tables.logs import COLUMNS

EVENTS = Table(
    name="events",
    topic="logs",
    doc="Log records with an event name",
    columns=COLUMNS,
    sort_by=("service_name", "timestamp"),
    rows=Rows.WITH_EVENT_NAME,
)
