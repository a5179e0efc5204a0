from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from icegate.errors import QueryError, QueryRefused, RequestTooLarge
from icegate_query.plan import MAX_SQL_BYTES
from query.lake import Lake, log_row, rows_of

if TYPE_CHECKING:
    from icegate_query import QueryService


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO logs SELECT * FROM logs",
        "UPDATE logs SET body = 'x'",
        "DELETE FROM logs",
        "TRUNCATE TABLE logs",
        "COPY logs TO '/tmp/stolen.parquet'",
        "COPY (SELECT 1) TO '/tmp/stolen.csv'",
        "CREATE TABLE x AS SELECT 1",
        "CREATE VIEW x AS SELECT 1",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
        "DROP TABLE logs",
        "SET datafusion.execution.batch_size = 1",
        "RESET datafusion.execution.batch_size",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "BEGIN",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE logs",
        "EXPLAIN SELECT * FROM logs",
        "EXPLAIN VERBOSE SELECT * FROM logs",
        "EXPLAIN ANALYZE SELECT * FROM logs",
        "SELECT * FROM logs JOIN spans ON logs.timestamp < spans.timestamp",
        "SELECT * FROM logs WHERE EXISTS (SELECT 1 FROM spans WHERE spans.timestamp > logs.timestamp)",
    ],
)
def test_what_is_not_a_query_is_refused(lake: Lake, service: QueryService, sql: str) -> None:
    lake.append("logs", [log_row("one", "still here")])
    with pytest.raises(QueryRefused):
        service.execute("one", sql)
    assert rows_of(service.execute("one", "SELECT body FROM logs")) == [{"body": "still here"}]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "No SQL statements"),
        ("SELEC 1", "Expected"),
        ("SELECT nope FROM logs", "nope"),
        ("SELECT * FROM nope", "nope"),
        ("SELECT * FROM '/etc/passwd'", "not found"),
        ("SELECT * FROM read_parquet('/etc/passwd')", "read_parquet"),
        ("SELECT sum(body) FROM logs", "sum"),
        ("SELECT repeat('x', 2000000000)", "repeat"),
        ("SELECT lpad('x', 2000000000)", "lpad"),
        ("SELECT array_length(range(1, 2000000000))", "range"),
    ],
)
def test_what_cannot_be_planned(service: QueryService, sql: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as refused:
        service.execute("one", sql)
    assert type(refused.value) is QueryError


def test_a_join_with_an_equality_and_more(lake: Lake, service: QueryService) -> None:
    lake.append("logs", [log_row("one", "a", trace_id="1"), log_row("one", "b", trace_id="1")])
    sql = "SELECT x.body FROM logs x JOIN logs y ON x.trace_id = y.trace_id AND x.body < y.body"
    assert rows_of(service.execute("one", sql)) == [{"body": "a"}]


def test_a_text_that_is_too_long(service: QueryService) -> None:
    text = "SELECT 1 --"
    assert rows_of(service.execute("one", text + "x" * (MAX_SQL_BYTES - len(text))))
    with pytest.raises(RequestTooLarge):
        service.execute("one", text + "é" * (MAX_SQL_BYTES // 2))


def test_a_long_chain_of_operators_does_not_end_the_process(service: QueryService) -> None:
    text = "SELECT a{} AS n FROM (SELECT true AS a)"
    sql = text.format(" OR a" * ((MAX_SQL_BYTES - len(text)) // 5))
    assert rows_of(service.execute("one", sql)) == [{"n": True}]


def test_one_statement_may_end_in_a_semicolon(service: QueryService) -> None:
    assert rows_of(service.execute("one", "SELECT 1 AS n;")) == [{"n": 1}]


def test_a_table_whose_read_goes_unnoticed_is_not_empty_but_unknown(
    lake: Lake, service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append("logs", [log_row("one", "a")])
    monkeypatch.setattr("icegate_query.plan._SCAN", re.compile("another form"))
    with pytest.raises(QueryError, match="logs"):
        service.execute("one", "SELECT count(*) FROM logs")
