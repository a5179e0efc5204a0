from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from icegate.errors import QueryError
from icegate.tables import TABLES
from icegate.wal import Position, list_tail
from icegate_query.bounds import Bounds
from icegate_query.cut import take_cut
from icegate_query.tail import TailCache
from query.lake import Lake, log_row, rows_of

if TYPE_CHECKING:
    from icegate_query import QueryService

THEIRS = "the other tenant's secret"


@pytest.fixture(params=["in the log", "compacted"])
def shared(request: pytest.FixtureRequest, lake: Lake) -> Lake:
    """Rows of two tenants in one segment."""
    lake.append("logs", [log_row("mine", "17"), log_row("theirs", THEIRS), log_row("theirs", THEIRS, event_name="e")])
    if request.param == "compacted":
        lake.compact("logs", Position({0: 0}))
        lake.compact("events", Position({0: 0}))
    return lake


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT body FROM logs",
        "SELECT body FROM logs WHERE tenant_id = 'theirs' OR true",
        "SELECT body FROM logs WHERE tenant_id <> 'mine' UNION ALL SELECT body FROM logs",
    ],
)
def test_a_tenant_sees_its_own_rows_only(service: QueryService, sql: str) -> None:
    assert rows_of(service.execute("mine", sql)) == [{"body": "17"}]


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("read_mode", ["latest", "committed"])
def test_expressions_are_never_evaluated_on_rows_of_others(service: QueryService, read_mode: str) -> None:
    assert read_mode in ("latest", "committed")
    assert rows_of(service.execute("mine", "SELECT CAST(body AS int) AS n FROM logs")) == [{"n": 17}]
    assert rows_of(service.execute("mine", "SELECT body FROM logs WHERE CAST(body AS int) > 0")) == [{"body": "17"}]
    assert rows_of(service.execute("mine", "SELECT CAST(body AS int) FROM events")) == []


@pytest.mark.usefixtures("shared")
def test_an_error_may_name_values_of_the_tenant_itself(service: QueryService) -> None:
    with pytest.raises(QueryError, match="Cannot cast string") as refused:
        rows_of(service.execute("theirs", "SELECT CAST(body AS int) FROM logs"))
    assert THEIRS in str(refused.value)


@pytest.mark.usefixtures("shared")
def test_a_tenant_without_rows_sees_none(service: QueryService) -> None:
    assert rows_of(service.execute("nobody", "SELECT * FROM logs")) == []


@pytest.mark.usefixtures("shared")
def test_only_our_tables_are_listed(service: QueryService) -> None:
    sql = "SELECT table_name FROM information_schema.tables WHERE table_schema <> 'information_schema'"
    assert {row["table_name"] for row in rows_of(service.execute("mine", sql))} == set(TABLES)
    columns = rows_of(service.execute("mine", "DESCRIBE icegate.spans"))
    assert [row["column_name"] for row in columns] == TABLES["spans"].schema.names


def test_tenants_share_no_memory(lake: Lake) -> None:
    """A view into another tenant's bytes would be one bug away from them."""
    lake.append("logs", [log_row("mine", "17"), log_row("theirs", THEIRS)])
    (cut,) = take_cut(lake.catalog, lake.store, [TABLES["logs"]], "latest", max_tail_bytes=1 << 20)
    with ThreadPoolExecutor(1) as readers:
        (batch,) = TailCache(lake.store, readers, 1 << 20).batches(cut, "mine", Bounds())
    held = b"".join(bytes(buffer) for column in batch.columns for buffer in column.buffers() if buffer is not None)
    assert b"17" in held
    assert THEIRS.encode() not in held
    assert len(list_tail(lake.store, "logs", Position()).segments) == 1
