"""Cut a run of segments into units: the work of one Spark task, about one table file's worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from icegate.errors import SegmentCorrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from icegate.wal import SegmentKey
    from icegate_compactor.footers import Contents, Share


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows ``first_row`` to ``first_row + rows`` of a segment, of one tenant or of neighbours."""

    segment: SegmentKey
    first_row: int
    rows: int


@dataclass(frozen=True, slots=True)
class Unit:
    """One task's work. ``tenants``: how many rows of the table it must find for each, by name."""

    slices: tuple[Slice, ...]
    tenants: tuple[tuple[str, int], ...]

    @property
    def rows(self) -> int:
        """Rows of the table in this unit."""
        return sum(rows for _, rows in self.tenants)


@dataclass(frozen=True, slots=True)
class _Piece:
    """One tenant's rows in one segment; ``size`` is their share of the segment's bytes."""

    segment: SegmentKey
    share: Share
    rows: int
    size: float


def cut(segments: Sequence[Contents], table: str, target_bytes: int) -> tuple[Unit, ...]:
    """Put each tenant's rows of each segment in exactly one unit.

    A tenant with at least ``target_bytes`` has units of its own, each over a run of segments; smaller ones share.
    The same segments give the same units.

    Raises:
        SegmentCorrupt: a footer does not count the table's rows.
    """
    units: list[Unit] = []
    shared: list[_Piece] = []
    shared_size = 0.0
    for pieces in _by_tenant(segments, table):
        size = sum(piece.size for piece in pieces)
        if size >= target_bytes:
            units += [_unit(run) for run in _runs(pieces, size, target_bytes)]
            continue
        if shared and shared_size + size > target_bytes:
            units.append(_unit(shared))
            shared, shared_size = [], 0.0
        shared += pieces
        shared_size += size
    if shared:
        units.append(_unit(shared))
    return tuple(units)


def _by_tenant(segments: Sequence[Contents], table: str) -> list[list[_Piece]]:
    tenants: dict[str, list[_Piece]] = {}
    for segment in sorted(segments, key=lambda each: each.key):
        for share in segment.shares:
            rows = share.tables.get(table)
            if rows is None:
                raise SegmentCorrupt(f"segment {segment.key} does not say how many rows are for table {table}")
            if rows:
                size = segment.size * rows / segment.rows
                tenants.setdefault(share.tenant, []).append(_Piece(segment.key, share, rows, size))
    return [tenants[name] for name in sorted(tenants)]


def _runs(pieces: Sequence[_Piece], size: float, target_bytes: int) -> list[list[_Piece]]:
    """Consecutive runs of about equal size."""
    count = round(size / target_bytes)
    runs: list[list[_Piece]] = [[] for _ in range(count)]
    before = 0.0
    for piece in pieces:
        runs[min(count - 1, int(before / size * count))].append(piece)
        before += piece.size
    return [run for run in runs if run]


def _unit(pieces: Sequence[_Piece]) -> Unit:
    tenants: dict[str, int] = {}
    slices: list[Slice] = []
    for piece in sorted(pieces, key=lambda each: (each.segment, each.share.first_row)):
        tenants[piece.share.tenant] = tenants.get(piece.share.tenant, 0) + piece.rows
        last = slices[-1] if slices else None
        if last and last.segment == piece.segment and last.first_row + last.rows == piece.share.first_row:
            slices[-1] = Slice(last.segment, last.first_row, last.rows + piece.share.rows)
        else:
            slices.append(Slice(piece.segment, piece.share.first_row, piece.share.rows))
    return Unit(tuple(slices), tuple(sorted(tenants.items())))
