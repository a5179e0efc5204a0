from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from datafusion import SessionContext

from icegate.errors import ObjectNotFound
from icegate.storage import path_of
from icegate.tables import TABLES
from icegate.wal import Position
from icegate_query.bounds import Bounds, bounds_of
from icegate_query.manifests import _decode_manifest
from icegate_query.service import QueryOptions
from query.lake import START, Lake, log_row, random_logs, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table as IcebergTable

    from icegate_query import QueryService
    from icegate_query.manifests import DataFile

DAY = timedelta(days=1)


def micros(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000_000)


MARCH, APRIL, MAY = micros("2026-03-01"), micros("2026-04-01"), micros("2026-05-01")


def bounds(sql: str) -> dict[str, Bounds]:
    session = SessionContext()
    for table in TABLES.values():
        session.register_record_batches(table.name, [[pa.RecordBatch.from_pylist([], schema=table.schema)]])
    return {
        table: each for table, each in bounds_of(session.sql(sql).optimized_logical_plan()).items() if each != Bounds()
    }


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("timestamp >= '2026-03-01'", Bounds(MARCH, None)),
        ("timestamp > '2026-03-01' AND body = 'x' AND timestamp < '2026-04-01'", Bounds(MARCH, APRIL)),
        ("'2026-03-01' <= timestamp AND '2026-04-01' > timestamp", Bounds(MARCH, APRIL)),
        ("timestamp BETWEEN '2026-03-01' AND '2026-04-01'", Bounds(MARCH, APRIL)),
        ("timestamp = '2026-03-01'", Bounds(MARCH, MARCH)),
        ("NOT timestamp > '2026-04-01'", Bounds(None, APRIL)),
        ("timestamp > '2026-03-01' AND timestamp > '2026-04-01'", Bounds(APRIL, None)),
        ("timestamp > '2026-03-01' AND date_trunc('day', timestamp) < '2026-04-01'", Bounds(MARCH, None)),
        ("timestamp > '2026-03-01' OR body = 'x'", None),
        ("timestamp <> '2026-03-01'", None),
        ("ingested_at > '2026-03-01'", None),
        ("time_unix_nano > 5", None),
        ("timestamp > ingested_at", None),
        ("timestamp > '2026-03-01' AND flags < (SELECT max(flags) FROM events)", None),
    ],
)
def test_bounds_of_a_condition(condition: str, expected: Bounds | None) -> None:
    wanted = {} if expected is None else {"logs": expected}
    assert bounds(f"SELECT body FROM logs AS l WHERE {condition}") == wanted


def test_bounds_cover_every_scan_of_a_table() -> None:
    april, march = (
        "logs WHERE timestamp > '2026-04-01' AND timestamp < '2026-05-01'",
        "logs WHERE timestamp < '2026-03-01'",
    )
    assert bounds(f"SELECT body FROM {april} UNION ALL SELECT body FROM {march}") == {"logs": Bounds(None, MAY)}
    assert bounds(f"SELECT body FROM {april} UNION ALL SELECT body FROM logs") == {}
    assert bounds(f"WITH a AS (SELECT * FROM {april}) SELECT a.body FROM a JOIN spans USING (trace_id)") == {
        "logs": Bounds(APRIL, MAY)
    }


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT body FROM logs WHERE timestamp > '2026-05-01' ORDER BY (SELECT count(*) FROM logs)",
        "SELECT (SELECT count(*) FROM logs) FROM logs WHERE timestamp > '2026-05-01'",
        "SELECT sum(flags) OVER (PARTITION BY (SELECT max(flags) FROM logs)) FROM logs WHERE timestamp > '2026-05-01'",
    ],
)
def test_no_bounds_beside_a_subquery_inside_an_expression(sql: str) -> None:
    assert bounds(sql) == {}


def test_a_hidden_scan_is_not_pruned(lake: Lake, service: QueryService) -> None:
    lake.append("logs", [log_row("one", str(day), START + day * DAY) for day in range(4)])
    lake.compact("logs", Position({0: 0}))
    lake.append("logs", [log_row("one", "late", START + 9 * DAY)])
    sql = "SELECT body, (SELECT count(*) FROM logs) AS n FROM logs WHERE timestamp > '2026-03-09'"
    assert rows_of(service.execute("one", sql)) == [{"body": "late", "n": 5}]


def test_files_outside_of_the_bounds_are_not_opened(lake: Lake, service: QueryService) -> None:
    lake.append("logs", [log_row("one", str(day), START + day * DAY) for day in range(4)])
    lake.compact("logs", Position({0: 0}))
    (first,) = (each for each in lake.files("logs") if "2026-03-01" in each)
    Path(path_of(first)).unlink()
    assert rows_of(service.execute("one", "SELECT count(*) AS n FROM logs WHERE timestamp >= '2026-03-03'")) == [
        {"n": 2}
    ]
    with pytest.raises(ObjectNotFound):
        service.execute("one", "SELECT count(*) FROM logs")


def test_a_manifest_is_decoded_once(lake: Lake, service: QueryService, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def decode(table: IcebergTable, manifest: ManifestFile) -> dict[str, list[DataFile]]:
        decoded.append(manifest.manifest_path)
        return _decode_manifest(table, manifest)

    monkeypatch.setattr("icegate_query.manifests._decode_manifest", decode)
    for commits in (1, 2, 3):
        lake.append("logs", [log_row("one", str(commits))])
        lake.compact("logs", Position({0: commits - 1}))
        for tenant in ("one", "two"):
            rows_of(service.execute(tenant, "SELECT count(*) FROM logs"))
        assert len(decoded) == len(set(decoded)) == commits


def test_a_margin_covers_the_time_between_planning_and_running(
    lake: Lake, serve: Callable[[QueryOptions], QueryService]
) -> None:
    """Bounds are found before the tables are read, and ``now()`` goes on meanwhile."""
    inside, outside = START + timedelta(seconds=-50), START + timedelta(seconds=-70)
    lake.append("logs", [log_row("one", "near", inside), log_row("one", "far", outside)])
    lake.compact("logs", Position({0: 0}))
    service = serve(QueryOptions(timeout_seconds=60))
    seen: list[Bounds] = []
    original = service._files.of
    service._files.of = lambda cut, tenant, bounds: seen.append(bounds) or original(cut, tenant, bounds)  # type: ignore[method-assign,func-returns-value]
    rows_of(service.execute("one", "SELECT body FROM logs WHERE timestamp >= '2026-03-01'"))
    assert seen == [Bounds(MARCH - 60_000_000, None)]


@pytest.mark.parametrize("seed", range(3))
def test_pruning_never_changes_an_answer(lake: Lake, service: QueryService, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(3):
        lake.append("logs", random_logs(rng, ["one", "two"], 60))
    lake.compact("logs", Position({0: 1}))
    logs = lake.expected("logs", "one")
    for _ in range(12):
        low = START + timedelta(seconds=rng.randrange(5 * 86_400))
        high = low + timedelta(seconds=rng.randrange(3 * 86_400))
        found = service.execute(
            "one", f"SELECT count(*) AS n FROM logs WHERE timestamp >= '{low}' AND timestamp < '{high}'"
        )
        assert rows_of(found) == [{"n": sum(low <= row["timestamp"] < high for row in logs)}]
