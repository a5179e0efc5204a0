"""What a table definition is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

STRING = pa.string()
BOOL = pa.bool_()
INT = pa.int32()
LONG = pa.int64()
DOUBLE = pa.float64()
TIMESTAMP = pa.timestamp("us", tz="UTC")
#: Attributes: keys as sent, values as text (a string as it is, anything else in its JSON form, unset as null).
ATTRIBUTES = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True, slots=True)
class Column:
    """One column, in Arrow's types; every other form (Parquet, Iceberg, SQL) derives from it.

    ``from_log`` marks what a row only has once its segment has an offset: such a column is in the table and in
    query results, not in the segment.
    """

    name: str
    type: pa.DataType
    doc: str
    required: bool = False
    from_log: bool = False

    def arrow(self) -> pa.Field:
        """The Arrow field."""
        return pa.field(self.name, self.type, nullable=not self.required)


class Rows(Enum):
    """Which of a topic's rows a table holds."""

    ALL = "all"
    WITH_EVENT_NAME = "with-event-name"
    WITHOUT_EVENT_NAME = "without-event-name"


@dataclass(frozen=True, slots=True)
class Table:
    """An Iceberg table and the WAL topic it is filled from.

    Every table is partitioned by ``identity(tenant_id), day(timestamp)``; ``sort_by`` orders rows in each file.
    """

    name: str
    topic: str
    doc: str
    columns: tuple[Column, ...]
    sort_by: tuple[str, ...]
    rows: Rows = Rows.ALL
    bloom_filters: tuple[str, ...] = field(default=())

    @property
    def schema(self) -> pa.Schema:
        """All columns, as a query sees them."""
        return pa.schema([c.arrow() for c in self.columns])

    @property
    def segment_schema(self) -> pa.Schema:
        """The columns a WAL segment of this table's topic holds."""
        return pa.schema([c.arrow() for c in self.columns if not c.from_log])

    @property
    def predicate(self) -> str | None:
        """The SQL condition that picks this table's rows from its topic; None if all are."""
        match self.rows:
            case Rows.ALL:
                return None
            case Rows.WITH_EVENT_NAME:
                return "event_name IS NOT NULL"
            case Rows.WITHOUT_EVENT_NAME:
                return "event_name IS NULL"
