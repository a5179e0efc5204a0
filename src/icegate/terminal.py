"""How results look on a terminal."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from rich import box
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

#: What would move the cursor, or worse: data may come from anybody. Line ends and tabs are themselves.
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def grid(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> Table:
    """An aligned table; numbers to the right."""
    cells = [list(row) for row in rows]
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, header_style="bold")
    for index, name in enumerate(columns):
        numeric = bool(cells) and all(isinstance(row[index], int | float) for row in cells if row[index] is not None)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(_text(cell)) for cell in row))
    return table


def _text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return f"{cell.replace(tzinfo=None)}Z" if cell.tzinfo else str(cell)
    return str(cell).translate(_CONTROLS)


def result(table: pa.Table, *, title: str | None = None) -> Table:
    """A query's result."""
    return grid(table.column_names, zip(*(column.to_pylist() for column in table.columns), strict=True), title=title)
