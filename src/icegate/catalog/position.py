"""A table's position in the log, read from the same metadata as its snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from icegate.wal import Position

if TYPE_CHECKING:
    from uuid import UUID

    from pyiceberg.table import Table as IcebergTable

#: The table property that moves in the same commit as the rows. A snapshot's summary repeats it for time travel;
#: a summary alone is lost when snapshots expire.
POSITION_PROPERTY: Final = "icegate.position"


@dataclass(frozen=True, slots=True)
class Base:
    """The state of a table that a plan or a query starts from. ``snapshot_id`` is None while it has none."""

    uuid: UUID
    snapshot_id: int | None
    schema_id: int
    spec_id: int
    position: Position


def base_of(table: IcebergTable) -> Base:
    """Everything from one metadata load, so that snapshot and position belong together.

    Raises:
        WalError: the table's position property is not a position.
    """
    metadata = table.metadata
    return Base(
        uuid=metadata.table_uuid,
        snapshot_id=metadata.current_snapshot_id,
        schema_id=metadata.current_schema_id,
        spec_id=metadata.default_spec_id,
        position=Position.from_json(metadata.properties.get(POSITION_PROPERTY, "{}")),
    )
