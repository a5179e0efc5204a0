"""What compaction leaves in the tables, against rows kept in plain Python."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from compactor.lake import DAY, EPOCH, Lake, event, files_of, log, point, span
from compactor.watch import Watch
from icegate.storage import path_of
from icegate_compactor import CompactOptions, Compactor

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


def fill(lake: Lake) -> None:
    """Three shards, three tenants, three days; logs and events mixed."""
    random = Random(4)
    for number in range(6):
        rows = []
        for n in range(30):
            tenant, at = random.choice(["acme", "globex", "initech.de"]), random.randrange(-DAY, 2 * DAY)
            make = event if n % 5 == 0 else log
            service = random.choice([None, "api", "db", "web"])
            rows.append(make(tenant, f"{number}-{n}", at, service_name=service, severity_number=n % 25))
        lake.append("logs", number % 3, rows)
    lake.append("traces", 0, [span(f"t{n % 2}", f"s{n}", n * DAY // 4) for n in range(10)])
    lake.append("metrics", 1, [point("t", f"m{n}", n, count=n, sum=n / 2, is_monotonic=n % 2 == 0) for n in range(9)])


def test_all_tables_hold_exactly_the_rows_of_the_log(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    fill(lake)
    watch = Watch()
    reports = compactor(lake, watch).run_once()

    lake.check()
    assert {name: len(lake.expected[name]) for name in lake.expected} == watch.published_rows
    assert [(r.table, r.outcome, r.rows, r.segments) for r in reports] == [
        ("logs", "committed", 144, 6),
        ("events", "committed", 36, 6),
        ("spans", "committed", 10, 1),
        ("metrics", "committed", 9, 1),
    ]
    assert lake.position("logs") == lake.position("events") == {0: 1, 1: 1, 2: 1}
    assert [lake.position(name) for name in ("spans", "metrics")] == [{0: 0}, {1: 0}]
    for report in reports:
        table = lake.table(report.table)
        assert table.metadata.current_snapshot_id == report.snapshot_id
        assert dict(report.position) == lake.position(report.table)
        assert report.files == len(list(table.scan().plan_files()))
    assert watch.progress[-1] == (1, 1)


def test_a_file_holds_one_tenant_and_day_in_order(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    fill(lake)
    compactor(lake).run_once()

    seen = set()
    for path, content in files_of(lake.table("logs")):
        rows = content.to_pylist()
        ((tenant, day),) = {(row["tenant_id"], row["timestamp"].date()) for row in rows}
        assert f"/data/tenant_id={tenant}/timestamp_day={day}/" in path
        assert (tenant, day) not in seen
        seen.add((tenant, day))
        order = [(row["service_name"] is None, row["service_name"] or "", row["timestamp"]) for row in rows]
        assert all(one <= other for one, other in pairwise(order))
    assert len(seen) == 9


def test_files_are_what_iceberg_and_its_readers_expect(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    fill(lake)
    compactor(lake).run_once()

    for name in ("spans", "metrics"):
        table = lake.table(name)
        wanted = {field.name: field.field_id for field in table.schema().fields}
        inner = table.schema().find_field("events.attributes.value" if name == "spans" else "exemplars.trace_id")
        for path, _ in files_of(table):
            file = pq.ParquetFile(path_of(path))
            assert {field.name: _id(field) for field in file.schema_arrow} == wanted
            if name == "spans":
                attributes = file.schema_arrow.field("events").type.value_type.field("attributes")
                assert _id(attributes.type.item_field) == inner.field_id
            else:
                assert _id(file.schema_arrow.field("exemplars").type.value_type.field("trace_id")) == inner.field_id
            for number in range(file.metadata.num_columns):
                column = file.metadata.row_group(0).column(number)
                filtered = column.bloom_filter_offset is not None
                assert filtered == (name == "spans" and column.path_in_schema == "trace_id")
                assert column.compression == "ZSTD"
    for task in lake.table("spans").scan().plan_files():
        time = lake.table("spans").schema().find_field("timestamp").field_id
        lowest = int.from_bytes(task.file.lower_bounds[time], "little", signed=True)
        assert (lowest - EPOCH) // DAY == task.file.partition[1] - EPOCH // DAY
        assert task.file.file_size_in_bytes == len(lake.table("spans").io.new_input(task.file.file_path))


def test_a_filter_on_partition_and_column_finds_its_rows(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    fill(lake)
    compactor(lake).run_once()

    found = lake.table("logs").scan(row_filter="tenant_id = 'acme' and service_name = 'db'").to_arrow()
    wanted = [row for row in lake.expected["logs"] if (row["tenant_id"], row["service_name"]) == ("acme", "db")]
    assert sorted(found["body"].to_pylist()) == sorted(row["body"] for row in wanted)


def test_a_range_without_rows_moves_the_position_in_an_empty_snapshot(
    lake: Lake, compactor: Callable[..., Compactor]
) -> None:
    lake.append("logs", 0, [event("a", "only events")])
    (logs, events, *_) = compactor(lake).run_once()

    assert (logs.outcome, logs.rows, logs.files, logs.segments) == ("committed", 0, 0, 1)
    assert (events.rows, events.files) == (1, 1)
    assert lake.position("logs") == {0: 0}
    assert lake.snapshots("logs") == 1
    lake.check()


def test_with_nothing_new_nothing_is_committed(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    lake.append("logs", 0, [log("a", "1")])
    watch = Watch()
    made = compactor(lake, watch)
    made.run_once()
    planned = len(watch.plans)
    reports = made.run_once()

    assert [report.outcome for report in reports] == ["nothing-to-do"] * 4
    assert [report.snapshot_id for report in reports] == [None] * 4
    assert dict(reports[0].position) == {0: 0}
    assert len(watch.plans) == planned
    assert lake.snapshots("logs") == 1


def test_bounded_batches_take_all_shards(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    for n in range(3):
        for shard in range(2):
            lake.append("logs", shard, [log("a", f"{shard}-{n}")])
    watch = Watch()
    reports = compactor(lake, watch, CompactOptions(max_plan_bytes=1)).run_once()

    taken = [(key.shard.number, key.offset) for p in watch.plans if p.table.name == "logs" for key in p.segments]
    assert taken == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert lake.snapshots("logs") == 6
    assert (reports[0].rows, reports[0].segments, reports[0].files) == (6, 6, 6)
    lake.check()


def test_what_arrives_later_is_left_to_the_next_run(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    lake.append("logs", 0, [log("a", "before")])
    later = log("a", "later")
    watch = Watch(when_planned=lambda: lake.append("logs", 0, [later]))
    reports = compactor(lake, watch, CompactOptions(max_plan_bytes=1)).run_once()

    assert dict(reports[0].position) == {0: 0}
    assert [row["body"] for row in lake.rows("logs")] == ["before"]
    compactor(lake).run_once()
    lake.check()


def test_a_large_tenant_is_staged_by_several_tasks(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    for n in range(4):
        lake.append("logs", 0, [log("big", f"{n}-{i}", service_name="s") for i in range(50)] + [log("small", f"{n}")])
    watch = Watch()
    reports = compactor(lake, watch, CompactOptions(target_file_bytes=8_000)).run_once()

    assert len(watch.plans[0].units) > 2
    assert (watch.progress[-1], reports[0].files) == ((len(watch.plans[0].units),) * 2, len(watch.files))
    lake.check()


def _id(field: pa.Field) -> int:
    return int(field.metadata[b"PARQUET:field_id"])
