"""Plan: which segments go into a table next, and who reads what of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from icegate.catalog.position import base_of
from icegate.wal import Tail, list_tail
from icegate_compactor.datafile import check_partitioning, data_folder, file_schema
from icegate_compactor.units import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.metadata import TableMetadata

    from icegate.catalog.position import Base
    from icegate.storage import ObjectStore
    from icegate.tables import Table
    from icegate.wal import Listed, Position, SegmentKey
    from icegate_compactor.footers import Footers
    from icegate_compactor.units import Unit

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """Sizes, in bytes.

    ``max_plan_bytes``: segments that one commit takes in (at least one segment). ``target_file_bytes``: segments' bytes
    for about one table file. ``task_memory_bytes``: what a task may hold of rows, which take about eight times their
    bytes in a segment; beyond that it uses its disk, at half as much CPU again.
    """

    max_plan_bytes: int = 2048 * _MIB
    target_file_bytes: int = 128 * _MIB
    task_memory_bytes: int = 1024 * _MIB


@dataclass(frozen=True, slots=True)
class Plan:
    """Work for one commit: ``segments`` move a table from ``base.position`` to ``end``.

    ``head`` is the position of all that was listed. ``units`` is empty if none of the rows is for this table; the
    position moves all the same.
    """

    table: Table
    base: Base
    metadata: TableMetadata = field(repr=False)
    segments: tuple[SegmentKey, ...]
    end: Position
    head: Position
    units: tuple[Unit, ...]

    @property
    def rows(self) -> int:
        """Rows that this plan adds to the table."""
        return sum(unit.rows for unit in self.units)

    @property
    def file_schema(self) -> pa.Schema:
        """The schema of the files to write, with Iceberg's field ids."""
        return file_schema(self.table, self.metadata.schema())

    @property
    def data_folder(self) -> str:
        """The address below which they go."""
        return data_folder(self.metadata)


def make_plan(
    loaded: IcebergTable,
    store: ObjectStore,
    table: Table,
    options: CompactOptions,
    footers: Footers,
    goal: Position | None = None,
) -> Plan | None:
    """The next commit's work; None if the log holds nothing after the table's position, up to ``goal``.

    Args:
        loaded: the table, just read from the catalog: position and snapshot come from this one load.
        store: where the log is.
        table: which table.
        options: how much to take.
        footers: read through this.
        goal: where to stop, however much the log grows; None takes all that is listed.

    Raises:
        ConfigError: the table was redefined in a way that this version cannot write.
        SegmentMissing, StaleCut, ObjectNotFound: the log moved on; load the table again.
        SegmentCorrupt, FormatTooNew: a segment cannot be used.
    """
    base = base_of(loaded)
    check_partitioning(table, loaded.metadata)
    tail = list_tail(store, table.topic, base.position, settle=True)
    wanted = [each for each in tail.segments if goal is None or each.key.offset <= goal[each.key.shard.number]]
    if not wanted:
        return None
    taken = _prefix(wanted, options.max_plan_bytes)
    return Plan(
        table=table,
        base=base,
        metadata=loaded.metadata,
        segments=tuple(each.key for each in taken),
        end=Tail(table.topic, base.position, tuple(taken)).end,
        head=tail.end,
        units=cut(footers.read(taken), table.name, options.target_file_bytes),
    )


def _prefix(segments: Sequence[Listed], max_bytes: int) -> Sequence[Listed]:
    total = 0
    for count, each in enumerate(segments):
        total += each.size
        if total > max_bytes and count:
            return segments[:count]
    return segments
