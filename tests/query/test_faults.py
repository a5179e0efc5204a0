from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import ManifestContent

from icegate.catalog.open import identifier
from icegate.errors import (
    CatalogUnavailable,
    ObjectNotFound,
    Overloaded,
    QueryError,
    QueryTimeout,
    SegmentCorrupt,
    SegmentMissing,
    ShuttingDown,
    StaleCut,
    StorageError,
    TableUnreadable,
)
from icegate.storage import path_of
from icegate.tables import TABLES
from icegate.wal import Boundary, Position, SegmentKey, Shard
from icegate_query import QueryOptions, QueryService
from icegate_query.manifests import _decode_manifest
from query.lake import Lake, log_row, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = "SELECT count(*) AS n FROM logs"
LOGS = Shard("logs", 0)


def file_of(lake: Lake, key: SegmentKey) -> Path:
    return Path(lake.location.url, key.path)


def clean_up_to(lake: Lake, offset: int) -> None:
    lake.store.put_if_absent(Boundary(LOGS, offset).path, b"")
    for each in range(offset + 1):
        lake.store.delete(LOGS.segment(each).path)


def serve_old_metadata(monkeypatch: pytest.MonkeyPatch, service: QueryService, old: Any, *, times: int) -> list[int]:
    """Let the service see a table as it was, so many times."""
    fresh = service._catalog.load_table
    calls: list[int] = []

    def load_table(name: Any) -> Any:
        calls.append(1)
        return old if len(calls) <= times else fresh(name)

    monkeypatch.setattr(service._catalog, "load_table", load_table)
    return calls


def test_a_hole_is_an_error_and_not_a_shorter_answer(lake: Lake, service: QueryService) -> None:
    for body in "abc":
        lake.append("logs", [log_row("one", body)])
    file_of(lake, LOGS.segment(1)).unlink()
    with pytest.raises(SegmentMissing, match="offset 1"):
        service.execute("one", COUNT)


def test_metadata_older_than_the_cleanup_is_read_again(
    lake: Lake, service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for body in "abc":
        lake.append("logs", [log_row("one", body)])
    old = lake.catalog.load_table(identifier(TABLES["logs"]))
    lake.compact("logs", Position({0: 1}))
    clean_up_to(lake, 1)
    calls = serve_old_metadata(monkeypatch, service, old, times=1)
    assert rows_of(service.execute("one", COUNT)) == [{"n": 3}]
    assert len(calls) == 2


def test_metadata_that_stays_old_is_an_error(
    lake: Lake, service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for body in "abc":
        lake.append("logs", [log_row("one", body)])
    old = lake.catalog.load_table(identifier(TABLES["logs"]))
    lake.compact("logs", Position({0: 1}))
    clean_up_to(lake, 1)
    calls = serve_old_metadata(monkeypatch, service, old, times=9)
    with pytest.raises(StaleCut):
        service.execute("one", COUNT)
    assert len(calls) == 2


def test_a_file_that_is_gone_makes_the_query_start_again(
    lake: Lake, service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append("logs", [log_row("one", "a")])
    lake.compact("logs", Position({0: 0}))
    old = lake.catalog.load_table(identifier(TABLES["logs"]))
    (uri,) = lake.files("logs")
    lake.catalog.load_table(identifier(TABLES["logs"])).delete()
    Path(path_of(uri)).unlink()
    serve_old_metadata(monkeypatch, service, old, times=1)
    assert rows_of(service.execute("one", COUNT)) == [{"n": 0}]


def test_a_file_that_stays_gone_is_an_error_without_its_name(lake: Lake, service: QueryService) -> None:
    lake.append("logs", [log_row("one", "a")])
    lake.compact("logs", Position({0: 0}))
    (uri,) = lake.files("logs")
    Path(path_of(uri)).unlink()
    with pytest.raises(ObjectNotFound) as failed:
        service.execute("one", COUNT)
    assert "/" not in str(failed.value)


def test_a_file_that_goes_between_planning_and_reading(lake: Lake, service: QueryService) -> None:
    lake.append("logs", [log_row("one", "a")])
    lake.compact("logs", Position({0: 0}))
    (uri,) = lake.files("logs")
    frame = service._engine.scanner.scan([uri], TABLES["logs"].schema)
    execution = service._engine.start(frame, time.monotonic() + 10)
    Path(path_of(uri)).unlink()
    with pytest.raises(ObjectNotFound, match="removed"):
        next(execution)


def test_a_file_that_cannot_be_read_is_an_error_without_its_name(lake: Lake, service: QueryService) -> None:
    lake.append("logs", [log_row("one", "a")])
    lake.compact("logs", Position({0: 0}))
    (uri,) = lake.files("logs")
    Path(path_of(uri)).write_bytes(b"no longer Parquet" * 20)
    with pytest.raises(StorageError, match="cannot be read; try again") as failed:
        service.execute("one", "SELECT body FROM logs")
    assert "parquet" not in str(failed.value)


def test_an_expired_snapshot_is_read_again(lake: Lake, service: QueryService, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.append("logs", [log_row("one", "a")])
    lake.compact("logs", Position({0: 0}))
    old = lake.catalog.load_table(identifier(TABLES["logs"]))
    snapshot = old.current_snapshot()
    assert snapshot is not None
    lake.append("logs", [log_row("one", "b")])
    lake.compact("logs", Position({0: 1}))
    Path(path_of(snapshot.manifest_list)).unlink()
    serve_old_metadata(monkeypatch, service, old, times=1)
    assert rows_of(service.execute("one", COUNT)) == [{"n": 2}]


@pytest.mark.parametrize("content", [b"", b"not parquet", b"PAR1\x00\x00\x00\x00PAR1"])
def test_a_segment_that_cannot_be_decoded(lake: Lake, service: QueryService, content: bytes) -> None:
    lake.append("logs", [log_row("one", "a")])
    lake.append("logs", [log_row("one", "b")])
    lake.compact("logs", Position({0: 0}))
    file_of(lake, LOGS.segment(1)).write_bytes(content)
    with pytest.raises(SegmentCorrupt, match="logs/0@1"):
        service.execute("one", COUNT)
    assert rows_of(service.execute("one", COUNT, "committed")) == [{"n": 1}]


@pytest.mark.parametrize(("column", "counted"), [("body", 1), ("flags", 2)])
def test_a_segment_that_is_not_what_its_footer_says(
    lake: Lake, service: QueryService, column: str, counted: int
) -> None:
    """One without a column that was always there, one with another number of rows."""
    lake.append("logs", [log_row("one", "a")])
    path = file_of(lake, LOGS.segment(0))
    table = pq.read_table(path)
    footer = json.loads(table.schema.metadata[b"icegate"])
    footer["tenants"][0]["tables"]["logs"] = counted
    kept = table.drop_columns([column]) if column == "body" else table
    pq.write_table(kept.replace_schema_metadata({"icegate": json.dumps(footer)}), path)
    with pytest.raises(SegmentCorrupt, match="logs/0@0"):
        service.execute("one", COUNT)


def test_an_error_never_names_where_the_data_is(lake: Lake, service: QueryService) -> None:
    with pytest.raises(QueryError) as failed:
        service.execute("one", f"SELECT CAST('{lake.location.url}' AS int) + 1 FROM generate_series(1, 2)")
    assert lake.location.url not in str(failed.value)


def test_delete_files_are_refused(lake: Lake) -> None:
    iceberg = lake.catalog.load_table(identifier(TABLES["logs"]))
    with pytest.raises(TableUnreadable, match="delete files"):
        _decode_manifest(iceberg, SimpleNamespace(content=ManifestContent.DELETES))  # type: ignore[arg-type]


def test_a_partitioning_that_mixes_tenants_is_refused(lake: Lake, service: QueryService) -> None:
    lake.append("logs", [log_row("one", "a")])
    lake.compact("logs", Position({0: 0}))
    with lake.catalog.load_table(identifier(TABLES["logs"])).update_spec() as update:
        update.remove_field("tenant_id")
    iceberg = lake.catalog.load_table(identifier(TABLES["logs"]))
    changed = SimpleNamespace(content=ManifestContent.DATA, partition_spec_id=iceberg.metadata.default_spec_id)
    with pytest.raises(TableUnreadable, match="tenants"):
        _decode_manifest(iceberg, changed)  # type: ignore[arg-type]
    assert rows_of(service.execute("one", COUNT)) == [{"n": 1}]


def test_a_tail_that_is_too_large_is_refused(lake: Lake, serve: Callable[[QueryOptions], QueryService]) -> None:
    lake.append("logs", [log_row("one", "a")])
    size = file_of(lake, LOGS.segment(0)).stat().st_size
    assert rows_of(serve(QueryOptions(max_tail_bytes=size)).execute("one", COUNT)) == [{"n": 1}]
    small = serve(QueryOptions(max_tail_bytes=size - 1))
    with pytest.raises(Overloaded, match="committed"):
        small.execute("one", COUNT)
    assert rows_of(small.execute("one", COUNT, "committed")) == [{"n": 0}]


def test_a_query_that_takes_too_long_is_cancelled(serve: Callable[[QueryOptions], QueryService]) -> None:
    service = serve(QueryOptions(timeout_seconds=0.2))
    with pytest.raises(QueryTimeout):
        service.execute("one", "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n FROM t) SELECT count(*) FROM t")
    assert rows_of(service.execute("one", "SELECT 1 AS n")) == [{"n": 1}]


def test_the_timeout_counts_while_the_answer_is_read(serve: Callable[[QueryOptions], QueryService]) -> None:
    answer = serve(QueryOptions(timeout_seconds=0.2)).execute("one", "SELECT * FROM generate_series(1, 1000000000000)")
    with pytest.raises(QueryTimeout):
        for _ in answer:
            pass
    assert list(answer) == []


def test_memory_is_bounded(serve: Callable[[QueryOptions], QueryService]) -> None:
    service = serve(QueryOptions(memory_bytes=1 << 20, target_partitions=1))
    with pytest.raises(Overloaded, match="memory"):
        rows_of(service.execute("one", "SELECT array_agg(value) FROM generate_series(1, 10000000)"))


def test_a_failure_after_the_first_rows_is_raised(service: QueryService) -> None:
    answer = service.execute("one", "SELECT 1 / (value - 1000000) AS n FROM generate_series(1, 2000000)")
    with pytest.raises(QueryError, match="Divide by zero"):
        list(answer)


def test_an_answer_is_cut_off_at_its_cap(serve: Callable[[QueryOptions], QueryService]) -> None:
    service = serve(QueryOptions(max_rows=10))
    for rows, truncated in ((9, False), (10, False), (11, True), (10**12, True)):
        answer = service.execute("one", f"SELECT value FROM generate_series(1, {rows})")
        table, cut_off = answer.collect()
        assert (table.num_rows, cut_off) == (min(rows, 10), truncated)
        assert list(answer) == []  # the rest was cancelled


def test_a_catalog_that_does_not_answer(service: QueryService, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_table(_: Any) -> Any:
        raise ConnectionError("database at 10.0.0.1 refused")

    monkeypatch.setattr(service._catalog, "load_table", load_table)
    with pytest.raises(CatalogUnavailable) as failed:
        service.execute("one", COUNT)
    assert "10.0.0.1" not in str(failed.value)


def test_closing_ends_what_is_running(lake: Lake) -> None:
    service = QueryService(lake.location)
    begun = service.execute("one", "SELECT * FROM generate_series(1, 1000000000000)")
    with ThreadPoolExecutor(1) as threads:
        endless = threads.submit(service.execute, "one", "SELECT count(*) FROM generate_series(1, 1000000000000)")
        while not asyncio.all_tasks(service._engine._loop):
            assert not endless.done()
        service.close()
        with pytest.raises(ShuttingDown):
            endless.result(timeout=30)
    with pytest.raises(ShuttingDown):
        for _ in begun:
            pass


def test_nothing_starts_once_closing_has_begun(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    service = QueryService(lake.location)
    engine = service._engine
    started: list[BaseException] = []
    stop = engine._loop.call_soon_threadsafe

    def start_another(*args: Any, **named: Any) -> Any:
        if args[0] == engine._loop.stop:
            late = threading.Thread(target=ask, daemon=True)
            late.start()
            late.join(10)
            assert not late.is_alive()
        return stop(*args, **named)

    def ask() -> None:
        try:
            service.execute("one", "SELECT 1")
        except ShuttingDown as error:
            started.append(error)

    monkeypatch.setattr(engine._loop, "call_soon_threadsafe", start_another)
    service.close()
    assert len(started) == 1
    engine.close()
