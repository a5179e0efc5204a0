"""How results look on a terminal."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

#: What would move the cursor, or worse: data may come from anybody. Line ends and tabs are themselves.
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


#: Wider than any table: where nobody looks at a screen, a line is a row.
_UNBOUNDED: Final = 100_000
_BETWEEN_COLUMNS: Final = 3


def console() -> Console:
    """Standard output: as wide as the terminal, or as it takes."""
    return Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else _UNBOUNDED)


def grid(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> Table:
    """An aligned table; numbers to the right."""
    cells = [list(row) for row in rows]
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, header_style="bold")
    for index, name in enumerate(columns):
        numeric = bool(cells) and all(isinstance(row[index], int | float) for row in cells if row[index] is not None)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
    for row in cells:
        table.add_row(*(Text(_text(cell)) for cell in row))
    return table


def result(table: pa.Table, width: int, *, title: str | None = None) -> RenderableType:
    """A query's result: a table if it fits, else a block a row."""
    cells = [[_plain(value, column.type) for value in column.to_pylist()] for column in table.columns]
    rows = list(zip(*cells, strict=True))
    longest = [
        max([len(name), *(len(_text(cell)) for cell in column)])
        for name, column in zip(table.column_names, cells, strict=True)
    ]
    if sum(longest) + _BETWEEN_COLUMNS * len(longest) <= width:
        return grid(table.column_names, rows, title=title)
    label = max(map(len, table.column_names))
    blocks = [Text(title, style="bold")] if title else []
    for number, row in enumerate(rows, 1):
        blocks.append(Text(f"row {number}", style="bold"))
        blocks += [
            Text(f"  {name:<{label}}  {_text(cell)}") for name, cell in zip(table.column_names, row, strict=True)
        ]
    return Group(*blocks)


def _plain(value: object, kind: pa.DataType) -> object:
    """A value as it is shown: what is nested as JSON."""
    return (
        json.dumps(_tree(value, kind), ensure_ascii=False) if pa.types.is_nested(kind) and value is not None else value
    )


def _tree(value: Any, kind: pa.DataType) -> object:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {str(key): _tree(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [_tree(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _tree(value[field.name], field.type) for field in kind}
    return value if isinstance(value, str | int | float) else str(value)


def _text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return f"{cell.replace(tzinfo=None)}Z" if cell.tzinfo else str(cell)
    return str(cell).translate(_CONTROLS)
