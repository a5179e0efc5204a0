"""The cut: what a query sees of each table, fixed before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyiceberg.exceptions import NoSuchTableError

from icegate.catalog.open import identifier
from icegate.catalog.position import base_of
from icegate.errors import CatalogUnavailable, IceGateError, Overloaded, TableUnreadable
from icegate.wal import Position, list_tail

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table as IcebergTable

    from icegate.catalog.position import Base
    from icegate.storage import ObjectStore
    from icegate.tables import Table
    from icegate.wal import Listed

#: ``latest``: all that was acknowledged before the query arrived. ``committed``: what is in Iceberg.
ReadMode = Literal["latest", "committed"]


@dataclass(frozen=True, slots=True)
class TableCut:
    """One table: a snapshot, and the segments of its topic after that snapshot's position."""

    table: Table
    iceberg: IcebergTable
    base: Base
    tail: tuple[Listed, ...]


def take_cut(
    catalog: Catalog, store: ObjectStore, tables: Sequence[Table], read_mode: ReadMode, *, max_tail_bytes: int
) -> tuple[TableCut, ...]:
    """Fix what a query over these tables sees.

    The metadata of all tables comes first, then one listing per topic: what a commit moves in between is still
    behind the position that was read, so no row is missed and none is seen twice.

    Args:
        catalog: where the tables are.
        store: where the log is.
        tables: the tables of the query.
        read_mode: whether the log counts.
        max_tail_bytes: encoded bytes of log beyond which the query is refused.

    Raises:
        SegmentMissing, StaleCut: the log does not follow on the metadata that was read.
        Overloaded: the log after the position is too large.
        CatalogUnavailable: the metadata cannot be read.
    """
    loaded = [(table, _load(catalog, table)) for table in tables]
    bases = {table.name: base_of(iceberg) for table, iceberg in loaded}
    listed: dict[str, tuple[Listed, ...]] = {}
    if read_mode == "latest":
        for topic in dict.fromkeys(table.topic for table in tables):
            start = _earliest(bases[table.name].position for table in tables if table.topic == topic)
            listed[topic] = list_tail(store, topic, start).segments
    cuts = tuple(
        TableCut(table, iceberg, bases[table.name], _after(listed.get(table.topic, ()), bases[table.name].position))
        for table, iceberg in loaded
    )
    _check_size(cuts, max_tail_bytes)
    return cuts


def _load(catalog: Catalog, table: Table) -> IcebergTable:
    try:
        return catalog.load_table(identifier(table))
    except IceGateError:
        raise
    except NoSuchTableError as error:
        raise TableUnreadable(f"table {table.name} is not in the catalog") from error
    except Exception as error:
        raise CatalogUnavailable(f"the catalog does not give table {table.name}; try again") from error


def _earliest(positions: Iterable[Position]) -> Position:
    every = list(positions)
    return Position({shard: min(each[shard] for each in every) for shard in set().union(*every)})


def _after(segments: Iterable[Listed], position: Position) -> tuple[Listed, ...]:
    return tuple(each for each in segments if each.key.offset > position[each.key.shard.number])


def _check_size(cuts: Iterable[TableCut], max_tail_bytes: int) -> None:
    for cut in cuts:
        size = sum(each.size for each in cut.tail)
        if size > max_tail_bytes:
            raise Overloaded(
                f"table {cut.table.name}: {size} bytes of log are not compacted yet, more than the {max_tail_bytes}"
                " that a query may read; compact, or ask with read mode 'committed'"
            )
