"""The four tables: each schema is written once, here, and everything else derives from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from icegate.tables.column import Column, Rows, Table
from icegate.tables.events import EVENTS
from icegate.tables.logs import LOGS
from icegate.tables.metrics import METRICS
from icegate.tables.spans import SPANS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EVENTS", "LOGS", "METRICS", "SPANS", "TABLES", "TOPICS", "Column", "Rows", "Table", "segment_schema"]

TABLES: Final = {t.name: t for t in (LOGS, EVENTS, SPANS, METRICS)}
#: WAL topics, in the order in which they are listed and shown.
TOPICS: Final = ("logs", "traces", "metrics")


def segment_schema(topic: str) -> pa.Schema:
    """The Arrow schema of a topic's WAL segments (one for all tables fed from it)."""
    return next(t.segment_schema for t in TABLES.values() if t.topic == topic)
