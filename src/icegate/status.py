"""What the log holds and how far each table has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from icegate.catalog.open import identifier
from icegate.catalog.position import base_of
from icegate.tables import TABLES
from icegate.wal import list_tail

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from icegate.storage import ObjectStore


@dataclass(frozen=True, slots=True)
class TableLag:
    """One table and one shard of its topic; ``head`` is the last offset, -1 if there is none. ``bytes`` are behind."""

    table: str
    topic: str
    shard: int
    position: int
    head: int
    segments_behind: int
    bytes_behind: int


def table_lags(store: ObjectStore, catalog: Catalog) -> list[TableLag]:
    """One entry for each table and each shard that either the table or the log knows."""
    lags: list[TableLag] = []
    for table in TABLES.values():
        start = base_of(catalog.load_table(identifier(table))).position
        tail = list_tail(store, table.topic, start)
        for shard in sorted({*start, *(each.key.shard.number for each in tail.segments)}):
            behind = [each for each in tail.segments if each.key.shard.number == shard]
            lags.append(
                TableLag(
                    table=table.name,
                    topic=table.topic,
                    shard=shard,
                    position=start[shard],
                    head=tail.end[shard],
                    segments_behind=len(behind),
                    bytes_behind=sum(each.size for each in behind),
                )
            )
    return lags
