"""The tables as a page: ``python -m icegate.tables.reference > docs/tables.md``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from icegate.tables import TABLES

if TYPE_CHECKING:
    from icegate.tables.column import Column, Table

_INTRODUCTION = """# Tables

Iceberg format v2, namespace `icegate`, partitioned by `identity(tenant_id), day(timestamp)`, zstd. This page is made
from the definitions in `src/icegate/tables/` (`python -m icegate.tables.reference > docs/tables.md`).

An attribute's value is text: a string as it is, anything else in its JSON form, unset as null. `wal_shard` and
`wal_offset` say where a row came from, so that SQL can show that each segment landed once.
"""


def render() -> str:
    """The page, in Markdown."""
    return "\n".join([_INTRODUCTION, *(_section(table) for table in TABLES.values())])


def _section(table: Table) -> str:
    rows = "\n".join(f"| `{c.name}` | {_type(c)} | {c.doc} |" for c in table.columns)
    blooms = (
        f" Bloom filter on {', '.join(f'`{name}`' for name in table.bloom_filters)}." if table.bloom_filters else ""
    )
    order = ", ".join(f"`{name}`" for name in table.sort_by)
    return (
        f"## `{table.name}`\n\n{table.doc}. From topic `{table.topic}`; files are sorted by {order}.{blooms}\n\n"
        f"| column | type | |\n|---|---|---|\n{rows}\n"
    )


def _type(column: Column) -> str:
    return f"`{column.type}`" + (" not null" if column.required else "")


if __name__ == "__main__":
    sys.stdout.write(render())
