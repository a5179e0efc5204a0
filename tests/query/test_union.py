from __future__ import annotations

import random
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from icegate.tables import TABLES
from icegate.wal import Position, list_tail
from query.lake import Lake, in_order, log_row, random_logs, random_spans, rows_of

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

    from icegate.storage import ObjectStore
    from icegate.wal import Tail
    from icegate_query import QueryService
    from icegate_query.cut import ReadMode

TENANTS = ["one", "two"]


def fill(lake: Lake, *, segments: int = 4) -> None:
    """Several segments of logs in two shards, and of spans in one."""
    rng = random.Random(7)
    for number in range(segments):
        lake.append("logs", random_logs(rng, TENANTS, 40), shard=number % 2)
        lake.append("traces", random_spans(rng, TENANTS, 10))


@pytest.mark.parametrize(
    "compacted",
    [
        {},
        {"logs": Position({0: 0})},
        {"logs": Position({0: 1, 1: 1}), "spans": Position({0: 2})},
        {"logs": Position({0: 1}), "events": Position({1: 0})},
        {"logs": Position({0: 1, 1: 1}), "events": Position({0: 1, 1: 1}), "spans": Position({0: 3})},
    ],
    ids=["all in the log", "one shard begun", "logs done", "logs and events apart", "all compacted"],
)
def test_every_row_is_there_once_wherever_it_is(
    lake: Lake, service: QueryService, compacted: dict[str, Position]
) -> None:
    fill(lake)
    for table, end in compacted.items():
        lake.compact(table, end)
    for table in ("logs", "events", "spans"):
        for tenant in TENANTS:
            expected = lake.expected(table, tenant)
            assert in_order(rows_of(service.execute(tenant, f"SELECT * FROM {table}"))) == in_order(expected)
            assert rows_of(service.execute(tenant, f"SELECT count(*) AS n FROM {table}")) == [{"n": len(expected)}]


def test_rows_that_move_while_the_service_runs_are_neither_lost_nor_doubled(lake: Lake, service: QueryService) -> None:
    fill(lake)
    for end in (Position(), Position({0: 0}), Position({0: 0, 1: 1}), Position({0: 1, 1: 1})):
        lake.compact("logs", end)
        found = rows_of(service.execute("one", "SELECT wal_shard, wal_offset, body FROM logs"))
        wanted = [
            {name: row[name] for name in ("wal_shard", "wal_offset", "body")} for row in lake.expected("logs", "one")
        ]
        assert in_order(found) == in_order(wanted)


def test_files_that_were_replaced_do_not_count(lake: Lake, service: QueryService) -> None:
    fill(lake)
    lake.compact("logs", Position({0: 1, 1: 1}))
    for _ in range(2):
        found = rows_of(service.execute("one", "SELECT * FROM logs"))
        assert in_order(found) == in_order(lake.expected("logs", "one"))
        lake.rewrite("logs")


def test_a_commit_between_metadata_and_listing_changes_nothing(
    lake: Lake, service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lake)

    def list_late(store: ObjectStore, topic: str, position: Position) -> Tail:
        lake.compact("logs", Position({0: 1, 1: 1}))
        return list_tail(store, topic, position)

    monkeypatch.setattr("icegate_query.cut.list_tail", list_late)
    found = rows_of(service.execute("one", "SELECT * FROM logs"))
    assert in_order(found) == in_order(lake.expected("logs", "one"))


def test_the_log_is_listed_after_all_metadata_was_read(
    lake: Lake, service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a row that a commit moves in between would be in neither."""
    steps: list[str] = []
    load = service._catalog.load_table

    def load_table(name: tuple[str, str]) -> IcebergTable:
        steps.append(name[1])
        return load(name)

    def list_log(store: ObjectStore, topic: str, position: Position) -> Tail:
        steps.append(f"log {topic}")
        return list_tail(store, topic, position)

    monkeypatch.setattr(service._catalog, "load_table", load_table)
    monkeypatch.setattr("icegate_query.cut.list_tail", list_log)
    lake.append("logs", [log_row("one", "x")])
    sql = "SELECT (SELECT count(*) FROM logs) AS l, (SELECT count(*) FROM events) AS e, count(*) AS s FROM spans"
    assert rows_of(service.execute("one", sql)) == [{"l": 1, "e": 0, "s": 0}]
    assert steps == ["logs", "events", "spans", "log logs", "log traces"]


def test_a_reader_sees_all_that_was_acknowledged_while_others_write_and_compact(
    lake: Lake, service: QueryService
) -> None:
    acknowledged: list[int] = []
    rounds = 25

    def write() -> None:
        for number in range(rounds):
            lake.append("logs", [log_row("one", str(number))])
            acknowledged.append(number)
            if number % 4 == 3:
                lake.compact("logs", Position({0: number - 1}))

    writer = threading.Thread(target=write)
    writer.start()
    while len(acknowledged) < rounds:
        before = len(acknowledged)
        found = {int(row["body"]) for row in rows_of(service.execute("one", "SELECT DISTINCT body FROM logs"))}
        counted = rows_of(service.execute("one", "SELECT count(*) - count(DISTINCT body) AS twice FROM logs"))
        assert found >= set(range(before))
        assert counted == [{"twice": 0}]
    writer.join()


def test_committed_leaves_the_log_out(lake: Lake, service: QueryService) -> None:
    fill(lake)
    lake.compact("logs", Position({0: 0}))
    expected = [row for row in lake.expected("logs", "one") if (row["wal_shard"], row["wal_offset"]) == (0, 0)]
    assert expected
    assert in_order(rows_of(service.execute("one", "SELECT * FROM logs", "committed"))) == in_order(expected)


@pytest.mark.parametrize("read_mode", ["latest", "committed"])
@pytest.mark.parametrize("table", TABLES)
def test_an_empty_table_has_its_schema(service: QueryService, table: str, read_mode: ReadMode) -> None:
    found, truncated = service.execute("one", f"SELECT * FROM {table}", read_mode).collect()
    assert (found.num_rows, truncated) == (0, False)
    assert found.schema == TABLES[table].schema


@pytest.mark.parametrize("compacted", [False, True])
def test_answers_have_the_types_of_the_table(lake: Lake, service: QueryService, compacted: bool) -> None:
    lake.append("traces", random_spans(random.Random(1), ["one"], 3))
    if compacted:
        lake.compact("spans", Position({0: 0}))
    assert service.execute("one", "SELECT * FROM spans").collect()[0].schema == TABLES["spans"].schema


def test_tables_of_one_topic_with_positions_of_their_own(lake: Lake, service: QueryService) -> None:
    fill(lake)
    lake.compact("logs", Position({0: 1}))
    lake.compact("events", Position({1: 1}))
    sql = "SELECT * FROM logs UNION ALL SELECT * FROM events"
    expected = lake.expected("logs", "one") + lake.expected("events", "one")
    assert in_order(rows_of(service.execute("one", sql))) == in_order(expected)


def test_string_views_do_not_leave_the_engine(lake: Lake, service: QueryService) -> None:
    lake.append("logs", [log_row("one", "x")])
    view = "arrow_cast(body, 'Utf8View')"
    nested = f"[{view}] AS l, {{v: {view}}} AS s, map(['k'], [{view}]) AS m"
    sql = f"SELECT {view} AS v, {nested}, arrow_cast(body, 'BinaryView') AS b FROM logs"
    found, _ = service.execute("one", sql).collect()
    assert found.schema.types == [
        pa.string(),
        pa.list_(pa.string()),
        pa.struct([pa.field("v", pa.string())]),
        pa.map_(pa.string(), pa.string()),
        pa.binary(),
    ]
    assert found.to_pylist() == [{"v": "x", "l": ["x"], "s": {"v": "x"}, "m": [("k", "x")], "b": b"x"}]


def test_attributes_by_key(lake: Lake, service: QueryService) -> None:
    for half in (["a", "b"], ["b", "c"]):
        lake.append("logs", [log_row("one", body) for body in half])
    lake.compact("logs", Position({0: 0}))
    columns = "attributes['k'] AS k, attributes['unset'] AS u, attributes['no'] AS n"
    sql = f"SELECT {columns} FROM logs WHERE attributes['k'] = 'b'"
    assert rows_of(service.execute("one", sql)) == [{"k": "b", "u": None, "n": None}] * 2


def test_join_of_two_tables(lake: Lake, service: QueryService) -> None:
    fill(lake)
    lake.compact("logs", Position({0: 1}))
    lake.compact("spans", Position({0: 1}))
    spans = Counter(row["trace_id"] for row in lake.expected("spans", "one"))
    expected = sum(spans[row["trace_id"]] for row in lake.expected("logs", "one"))
    sql = "SELECT count(*) AS n FROM logs JOIN icegate.spans ON logs.trace_id = spans.trace_id"
    assert rows_of(service.execute("one", sql)) == [{"n": expected}]


@pytest.mark.parametrize(
    "sql",
    [
        """WITH l AS (SELECT * FROM logs), e AS (SELECT * FROM events)
           SELECT (SELECT count(*) FROM l) + count(*) AS n FROM e""",
        "SELECT count(*) AS n FROM (SELECT body FROM logs UNION ALL SELECT body FROM events)",
        "SELECT count(*) + (SELECT count(*) FROM events) AS n FROM logs",
        "SELECT count(*) + max((SELECT count(*) FROM events)) AS n FROM logs ORDER BY (SELECT count(*) FROM spans)",
        "SELECT n + m AS n FROM (SELECT count(*) AS n FROM logs) CROSS JOIN (SELECT count(*) AS m FROM events)",
        "SELECT CASE WHEN true THEN (SELECT count(*) FROM logs) + (SELECT count(*) FROM events) END AS n",
    ],
)
def test_tables_are_found_wherever_they_stand_in_the_query(lake: Lake, service: QueryService, sql: str) -> None:
    fill(lake)
    logs, events = len(lake.expected("logs", "one")), len(lake.expected("events", "one"))
    assert rows_of(service.execute("one", sql)) == [{"n": logs + events}]


def test_the_cut_is_reported(lake: Lake, service: QueryService) -> None:
    fill(lake)
    lake.compact("logs", Position({0: 1, 1: 0}))
    answer = service.execute("one", "SELECT 1 FROM logs JOIN spans USING (trace_id)")
    snapshot_id = lake.catalog.load_table(("icegate", "logs")).metadata.current_snapshot_id
    assert answer.describe_cut() == {
        "logs": {"snapshot_id": str(snapshot_id), "position": {"0": 1, "1": 0}, "tail_segments": 1},
        "spans": {"snapshot_id": None, "position": {}, "tail_segments": 4},
    }
    answer.close()


def test_now_is_the_time_of_the_query(lake: Lake, service: QueryService) -> None:
    lake.append("logs", [log_row("one", "x")])
    first, second = (rows_of(service.execute("one", "SELECT now() AS t, body FROM logs"))[0]["t"] for _ in range(2))
    assert first < second
