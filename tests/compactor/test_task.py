"""The task alone, in this process: what Spark's workers do with a unit."""

from __future__ import annotations

import uuid
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compactor.lake import EPOCH, Lake, by_place, event, log, with_times
from icegate.catalog.open import identifier
from icegate.errors import FormatTooNew, ObjectNotFound, SegmentCorrupt
from icegate.storage import path_of
from icegate.tables import LOGS, segment_schema
from icegate.wal import Batch, Encoded, encode
from icegate.wal import segment as segments
from icegate_compactor.files import StagedFile, Target
from icegate_compactor.footers import Footers
from icegate_compactor.plan import CompactOptions, Plan, make_plan
from icegate_compactor.task import Job, run, stage_unit, unit_row
from icegate_compactor.units import Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

_MIB = 1024 * 1024


def plan_of(lake: Lake, target_file_bytes: int = 128 * _MIB) -> Plan:
    loaded = lake.catalog.load_table(identifier(LOGS))
    options = CompactOptions(target_file_bytes=target_file_bytes)
    plan = make_plan(loaded, lake.store, LOGS, options, Footers(lake.store))
    assert plan is not None
    return plan


def job_of(lake: Lake, plan: Plan, memory_bytes: int = 512 * _MIB) -> Job:
    return Job("logs", Target(lake.location, plan.data_folder, plan.file_schema, ("trace_id",)), memory_bytes)


def content(file: StagedFile) -> pa.Table:
    return with_times(pq.ParquetFile(path_of(file.path)).read())


def read(files: Sequence[StagedFile]) -> list[dict[str, Any]]:
    return by_place([row for file in files for row in content(file).to_pylist()])


def test_more_rows_than_memory_are_sorted_on_disk(lake: Lake) -> None:
    for n in range(20):
        rows = [log("a", f"{n}-{i} " + "x" * 20_000, (i * 7919) % 1000, service_name=f"s{i % 7}") for i in range(200)]
        lake.append("logs", 0, rows)
    plan = plan_of(lake)
    (unit,) = plan.units
    (file,) = stage_unit(job_of(lake, plan, 64 * _MIB), unit)  # 80 MB of rows

    assert read([file]) == by_place(lake.expected["logs"])
    rows = content(file).select(["service_name", "timestamp"]).to_pylist()
    order = [(row["service_name"], row["timestamp"]) for row in rows]
    assert all(one <= other for one, other in pairwise(order))


def test_a_large_file_has_several_row_groups(lake: Lake) -> None:
    lake.append("logs", 0, [log("a", "same", n) for n in range(70_000)])
    plan = plan_of(lake)
    (file,) = stage_unit(job_of(lake, plan), plan.units[0])

    metadata = pq.read_metadata(path_of(file.path))
    sizes = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert sum(sizes) == file.rows == 70_000
    assert len(sizes) == 2
    assert all(size <= 2 * 65_536 for size in sizes)
    assert file.size == Path(path_of(file.path)).stat().st_size
    assert pq.read_metadata(pa.BufferReader(file.footer)).num_rows == 70_000


def test_units_of_one_tenant_add_up_to_its_rows(lake: Lake) -> None:
    for n in range(4):
        lake.append("logs", n % 2, [log("a", f"{n}-{i}") for i in range(20)] + [event("b", f"e{n}"), log("b", f"{n}")])
    plan = plan_of(lake, target_file_bytes=4_000)
    assert len(plan.units) > 2
    job = job_of(lake, plan)
    assert read([file for unit in plan.units for file in stage_unit(job, unit)]) == by_place(lake.expected["logs"])


def test_a_slice_in_later_row_groups_is_found(lake: Lake) -> None:
    rows = [log(tenant, f"{tenant}{n}") for tenant in ("a", "b", "c") for n in range(4_500)]  # row groups of their own
    key = lake.append("logs", 0, rows)
    assert pq.ParquetFile(Path(lake.location.url, key.path)).metadata.num_row_groups == 3
    plan = plan_of(lake, target_file_bytes=1)
    assert [unit.tenants for unit in plan.units] == [(("a", 4_500),), (("b", 4_500),), (("c", 4_500),)]
    files = stage_unit(job_of(lake, plan), plan.units[1])
    assert read(files) == by_place([row for row in lake.expected["logs"] if row["tenant_id"] == "b"])


@pytest.mark.parametrize(("logs", "events"), [(1, 2), (3, 0)])
def test_other_rows_than_the_footer_promised_are_refused(lake: Lake, logs: int, events: int) -> None:
    rows = [log("a", "1"), log("a", "2"), event("a", "3")]
    _append_with(lake, rows, logs=logs, events=events)
    plan = plan_of(lake)
    with pytest.raises(SegmentCorrupt, match=r"logs/0@0 to logs/0@0: footers promise .*\{'a': 2\}"):
        stage_unit(job_of(lake, plan), plan.units[0])


def test_fewer_rows_than_the_footer_says_are_refused(lake: Lake) -> None:
    lake.append("logs", 0, [log("a", "1"), log("a", "2")])
    plan = plan_of(lake)
    unit = plan.units[0]
    longer = Unit((replace(unit.slices[0], rows=5),), unit.tenants)
    with pytest.raises(SegmentCorrupt, match="logs/0@0 has 3 rows fewer"):
        stage_unit(job_of(lake, plan), longer)


def test_what_no_retry_helps_is_a_result_that_names_the_segment(lake: Lake) -> None:
    key = lake.append("logs", 0, [log("a", "1")])
    plan = plan_of(lake)
    Path(lake.location.url, key.path).unlink()
    schema = pa.schema(
        [
            ("slices", pa.list_(pa.struct({n: pa.int64() for n in ("shard", "offset", "first_row", "rows")}))),
            ("tenants", pa.list_(pa.struct({"tenant": pa.string(), "rows": pa.int64()}))),
        ]
    )
    slices, tenants = unit_row(plan.units[0])
    row = {
        "slices": [dict(zip(("shard", "offset", "first_row", "rows"), each, strict=True)) for each in slices],
        "tenants": [dict(zip(("tenant", "rows"), each, strict=True)) for each in tenants],
    }
    (answer,) = run(job_of(lake, plan), iter([pa.RecordBatch.from_pylist([row], schema)]))
    (found,) = answer.to_pylist()
    assert found["error"] == ObjectNotFound.__name__
    assert key.path in found["text"]
    assert found["path"] is None


def test_columns_of_a_newer_version_are_refused(lake: Lake) -> None:
    lake.append("logs", 0, [log("a", "1")])
    plan = plan_of(lake)
    path = Path(lake.location.url, plan.segments[0].path)
    table = pq.ParquetFile(path).read()
    pq.write_table(table.append_column("sentiment", pa.array(["good"])), path)
    with pytest.raises(FormatTooNew, match=r"logs/0@0 .*sentiment"):
        stage_unit(job_of(lake, plan), plan.units[0])


def test_a_column_that_an_older_version_did_not_write_is_null(lake: Lake) -> None:
    lake.append("logs", 0, [log("a", "1")])
    plan = plan_of(lake)
    path = Path(lake.location.url, plan.segments[0].path)
    pq.write_table(pq.ParquetFile(path).read().drop_columns(["flags"]), path)
    assert read(stage_unit(job_of(lake, plan), plan.units[0])) == by_place(lake.expected["logs"])


def test_footers_are_read_once_for_both_tables(lake: Lake) -> None:
    for n in range(3):
        lake.append("logs", 0, [log("a", f"{n}")])
    footers = Footers(lake.store)
    loaded = lake.table("logs")
    plan = make_plan(loaded, lake.store, LOGS, CompactOptions(), footers)
    for each in Path(lake.location.url, "wal/logs/0000").glob("*.parquet"):
        each.write_bytes(each.read_bytes()[:-1])  # a second read would fail
    assert plan is not None
    again = make_plan(loaded, lake.store, LOGS, CompactOptions(), footers)
    assert again is not None
    assert (again.rows, again.units) == (3, plan.units)


def _append_with(lake: Lake, rows: list[dict[str, Any]], *, logs: int, events: int) -> None:
    """A segment whose footer counts rows wrongly."""
    table = pa.Table.from_pylist(rows, schema=segment_schema("logs"))
    true = encode("logs", table, [Batch("a", 3)], attempt=str(uuid.uuid4()), writer="test", created=EPOCH)
    tenants = (replace(true.footer.tenants[0], tables={"logs": logs, "events": events}),)
    footer = replace(true.footer, tenants=tenants)
    lake.append_encoded("logs", 0, Encoded(footer, segments._write("logs", table, footer)))
