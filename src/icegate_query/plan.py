"""From SQL text to a plan: what it may say, which tables it reads, and what stands behind their names.

The text is planned twice, each time in a session that knows nothing but our four tables. First over empty tables,
which tells what the query needs; then over the cut.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from datafusion import SessionConfig, SessionContext, SQLOptions

from icegate.catalog.open import NAMESPACE
from icegate.errors import QueryError, QueryRefused, RequestTooLarge
from icegate.tables import TABLES
from icegate_query.bounds import bounds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from datafusion import DataFrame

    from icegate.tables import Table
    from icegate_query.bounds import Bounds
    from icegate_query.engine import Engine

#: Longest SQL text, bytes. Planning recurses once an operator; a text twice as long can overflow a thread's stack.
MAX_SQL_BYTES: Final = 8192

_READ_ONLY: Final = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
_REFUSALS: Final = re.compile(r"(?:DDL|DML|Statement) not supported|single SQL statement|Unsupported SQL statement")
_SCAN: Final = re.compile(rf"TableScan: (?:\w+\.)*({'|'.join(TABLES)})\b")
#: How a plan shows a join without an equality: it compares every pair of rows, and cannot be cancelled.
_PAIRWISE_JOIN: Final = re.compile(r"Join:\s+Filter:")
#: A number in the query decides how large one value of their result is: a single call can take all memory.
_UNBOUNDED_FUNCTIONS: Final = (
    "repeat",
    "lpad",
    "rpad",
    "range",
    "generate_series",
    "array_repeat",
    "list_repeat",
    "array_resize",
    "list_resize",
)


@dataclass(frozen=True, slots=True)
class Needs:
    """What a query reads: tables of ours in the order of the definition, and per table bounds on its timestamps.

    ``definitions``: it also asks which tables and columns there are.
    """

    tables: tuple[Table, ...]
    bounds: Mapping[str, Bounds]
    definitions: bool


def analyse(engine: Engine, sql: str) -> Needs:
    """Check a query and find out what it reads, without reading anything.

    Raises:
        RequestTooLarge: the text is too long.
        QueryRefused: it asks for something else than reading tables.
        QueryError: it cannot be planned.
    """
    if len(sql.encode(errors="replace")) > MAX_SQL_BYTES:
        raise RequestTooLarge(f"the SQL text is longer than {MAX_SQL_BYTES} bytes")
    session = _session()
    for table in TABLES.values():
        session.register_record_batches(table.name, [[_no_rows(table)]])
    with _planning(engine):
        frame = session.sql_with_options(sql, _READ_ONLY)
        text = frame.logical_plan().display_indent()
    if text.startswith(("Explain", "Analyze")):
        raise QueryRefused("EXPLAIN is not available")
    with _planning(engine):
        optimised = frame.optimized_logical_plan()
    if _PAIRWISE_JOIN.search(optimised.display_indent()):
        raise QueryRefused("a join needs a condition of the form a.x = b.y, else it compares every pair of rows")
    read = _SCAN.findall(text)
    return Needs(
        tuple(table for name, table in TABLES.items() if name in read),
        bounds_of(optimised),
        definitions=text.startswith("DescribeTable") or "information_schema" in text,
    )


def plan(engine: Engine, sql: str, needs: Needs, tables: Mapping[str, DataFrame]) -> DataFrame:
    """The query over what stands behind the names of the tables it needs.

    No other name is known, so a read that went unnoticed is an error and not an empty table.

    Raises:
        QueryError: it cannot be planned.
    """
    session = _session()
    for name, table in TABLES.items():
        if name in tables:
            session.register_table(name, tables[name].into_view())
        elif needs.definitions:
            session.register_record_batches(name, [[_no_rows(table)]])
    with _planning(engine):
        chosen = session.sql_with_options(sql, _READ_ONLY).logical_plan()
        return engine.context.create_dataframe_from_logical_plan(chosen)


def union(engine: Engine, table: Table, uris: Iterable[str], batches: Iterable[pa.RecordBatch]) -> DataFrame:
    """A table as one plan: its files and the batches of its tail."""
    files, tail = list(uris), list(batches)
    in_memory = engine.context.read_batches(tail or [_no_rows(table)])
    if not files:
        return in_memory
    scan = engine.scanner.scan(files, table.schema)
    return scan.union(in_memory) if tail else scan


def _session() -> SessionContext:
    config = SessionConfig().with_information_schema(enabled=True).with_default_catalog_and_schema(NAMESPACE, NAMESPACE)
    session = SessionContext(config)
    for name in _UNBOUNDED_FUNCTIONS:
        session.deregister_udf(name)
    return session


def _no_rows(table: Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=table.schema)


@contextmanager
def _planning(engine: Engine) -> Iterator[None]:
    try:
        with engine.translated():
            yield
    except QueryError as error:
        if _REFUSALS.search(str(error)):
            raise QueryRefused(f"only a single query can be run here ({error})") from error
        raise
