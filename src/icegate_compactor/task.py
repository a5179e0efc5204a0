"""The task: read a unit from the log, sort it in bounded memory, write table files. Runs in Spark's Python workers.

Nothing here may import Spark or pyiceberg: a worker should start fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

from icegate.errors import ObjectNotFound, SegmentCorrupt, WalError
from icegate.tables import TABLES
from icegate.wal import Shard
from icegate_compactor.files import StagedFile, Target, write_files
from icegate_compactor.rows import read_rows
from icegate_compactor.units import Slice, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from icegate.tables import Table

#: A unit, as a row of Spark's.
UNIT: Final = (
    "slices array<struct<shard: int, offset: bigint, first_row: bigint, rows: bigint>>,"
    " tenants array<struct<tenant: string, rows: bigint>>"
)
#: A written file, or an error that no retry helps, as a row of Spark's.
RESULT: Final = (
    "path string, tenant string, day int, rows bigint, size bigint, footer binary, error string, text string"
)
_RESULT_SCHEMA: Final = pa.schema(
    [
        ("path", pa.string()),
        ("tenant", pa.string()),
        ("day", pa.int32()),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("footer", pa.binary()),
        ("error", pa.string()),
        ("text", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Job:
    """What all tasks of a plan share. Plain data: Spark sends it to each."""

    table: str
    target: Target
    memory_bytes: int


def unit_row(unit: Unit) -> tuple[Any, ...]:
    """A unit as a row of ``UNIT``."""
    slices = [(each.segment.shard.number, each.segment.offset, each.first_row, each.rows) for each in unit.slices]
    return slices, list(unit.tenants)


def run(job: Job, units: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Work on each unit; gives rows of ``RESULT``.

    What a retry cannot help is a result and not an exception, so that Spark does not try it again.
    """
    topic = TABLES[job.table].topic
    for batch in units:
        for row in batch.to_pylist():
            slices = tuple(
                Slice(Shard(topic, s["shard"]).segment(s["offset"]), s["first_row"], s["rows"]) for s in row["slices"]
            )
            unit = Unit(slices, tuple((t["tenant"], t["rows"]) for t in row["tenants"]))
            try:
                results = [_result(file) for file in stage_unit(job, unit)]
            except (WalError, ObjectNotFound) as error:
                results = [{"error": type(error).__name__, "text": str(error)}]
            yield pa.RecordBatch.from_pylist(results, schema=_RESULT_SCHEMA)


def stage_unit(job: Job, unit: Unit) -> list[StagedFile]:
    """Write a unit's files.

    Raises:
        ObjectNotFound, SegmentCorrupt, FormatTooNew, StorageError: as ``read_rows``.
        SegmentCorrupt: the rows are not those that the footers count, by tenant.
    """
    table = TABLES[job.table]
    with TemporaryDirectory(prefix="icegate-compact-") as folder:
        context = _context(job.memory_bytes // 2)
        _gather(context, job, unit, Path(folder))
        files = list(write_files(_sorted(context, table), job.target))
    found: dict[str, int] = {}
    for file in files:
        found[file.tenant] = found.get(file.tenant, 0) + file.rows
    if found != dict(unit.tenants):
        first, last = unit.slices[0].segment, unit.slices[-1].segment
        raise SegmentCorrupt(
            f"segments {first} to {last}: footers promise rows for table {table.name} by tenant {dict(unit.tenants)},"
            f" and there are {found}"
        )
    return files


def _context(memory_bytes: int) -> SessionContext:
    # One thread and one stream: Spark already runs a task on each core.
    config = SessionConfig({"datafusion.execution.target_partitions": "1"})
    return SessionContext(config, RuntimeEnvBuilder().with_fair_spill_pool(memory_bytes).with_disk_manager_os())


def _gather(context: SessionContext, job: Job, unit: Unit, folder: Path) -> None:
    """Make the unit's rows the table ``unit``: in memory if they fit a quarter of the task's, else in a file."""
    schema = TABLES[job.table].schema
    gathered: list[pa.RecordBatch] = []
    size = 0
    batches = read_rows(job.target.location, unit.slices, schema)
    for batch in batches:
        gathered.append(batch)
        size += batch.nbytes
        if size > job.memory_bytes // 4:
            break
    else:
        context.register_record_batches("unit", [gathered])
        return
    path = folder / "unit.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for batch in gathered:
            writer.write_batch(batch)
        gathered.clear()
        for batch in batches:
            writer.write_batch(batch)
    context.sql(f"CREATE EXTERNAL TABLE unit STORED AS ARROW LOCATION '{path}'")


def _sorted(context: SessionContext, table: Table) -> Iterator[pa.RecordBatch]:
    order = ", ".join(f'"{name}" ASC NULLS LAST' for name in table.sort_by)
    where = f"WHERE {table.predicate}" if table.predicate else ""
    query = f"""SELECT * FROM unit {where} ORDER BY tenant_id, date_trunc('day', "timestamp"), {order}"""
    for batch in context.sql(query).execute_stream():
        yield batch.to_pyarrow()


def _result(file: StagedFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "tenant": file.tenant,
        "day": file.day,
        "rows": file.rows,
        "size": file.size,
        "footer": file.footer,
    }
