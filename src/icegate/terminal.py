"""How results look on a terminal."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa


def grid(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> Table:
    """An aligned table; numbers to the right."""
    cells = [list(row) for row in rows]
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, header_style="bold")
    for index, name in enumerate(columns):
        numeric = bool(cells) and all(isinstance(row[index], int | float) for row in cells if row[index] is not None)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(_text, row))
    return table


def _text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return f"{cell.replace(tzinfo=None)}Z" if cell.tzinfo else str(cell)
    return str(cell)


def result(table: pa.Table, *, title: str | None = None) -> Table:
    """A query's result."""
    return grid(table.column_names, zip(*(column.to_pylist() for column in table.columns), strict=True), title=title)
