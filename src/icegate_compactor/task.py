"""The task: read a unit from the log, sort it in bounded memory, write table files. Runs in Spark's Python workers.

Nothing here may import Spark or pyiceberg: a worker should start fast.
"""

from __future__ import annotations

from contextlib import ExitStack
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
_BATCH_ROWS: Final = 8192
#: Sorting holds some batches at a time and merging one a run: so many must fit in a task's memory.
_BATCHES_IN_MEMORY: Final = 64


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
    with TemporaryDirectory(prefix="icegate-compact-") as folder:
        files = list(write_files(_sorted(job, unit, Path(folder) / "unit.arrow"), job.target))
    found: dict[str, int] = {}
    for file in files:
        found[file.tenant] = found.get(file.tenant, 0) + file.rows
    if found != dict(unit.tenants):
        first, last = unit.slices[0].segment, unit.slices[-1].segment
        raise SegmentCorrupt(
            f"segments {first} to {last}: footers promise rows for table {job.table} by tenant {dict(unit.tenants)},"
            f" and there are {found}"
        )
    return files


def _sorted(job: Job, unit: Unit, spool: Path) -> Iterator[pa.RecordBatch]:
    """The unit's rows for the table, by tenant, day and the table's order."""
    table = TABLES[job.table]
    gathered, row_bytes = _gather(job, unit, spool)
    batch_rows = max(1, min(_BATCH_ROWS, job.memory_bytes // _BATCHES_IN_MEMORY // row_bytes))
    config = {
        # One thread and one stream: Spark already runs a task on each core.
        "datafusion.execution.target_partitions": "1",
        "datafusion.execution.batch_size": str(batch_rows),
    }
    # In memory, the rows that are sorted are the ones gathered: the pool counts them, so it is not on top.
    pool = RuntimeEnvBuilder().with_fair_spill_pool(job.memory_bytes).with_disk_manager_os()
    context = SessionContext(SessionConfig(config), pool)
    if gathered:
        context.register_record_batches("unit", [gathered])
    else:
        context.sql(f"CREATE EXTERNAL TABLE unit STORED AS ARROW LOCATION '{spool}'")
    order = ", ".join(f'"{name}" ASC NULLS LAST' for name in table.sort_by)
    where = f"WHERE {table.predicate}" if table.predicate else ""
    query = f"""SELECT * FROM unit {where} ORDER BY tenant_id, date_trunc('day', "timestamp"), {order}"""
    for batch in context.sql(query).execute_stream():
        yield batch.to_pyarrow()


def _gather(job: Job, unit: Unit, spool: Path) -> tuple[list[pa.RecordBatch], int]:
    """The unit's rows in the log, and a row's average bytes.

    More than half of the task's memory goes to ``spool``, an Arrow file, and the list is empty.
    """
    schema = TABLES[job.table].schema
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    with ExitStack() as stack:
        writer: pa.RecordBatchFileWriter | None = None
        for batch in read_rows(job.target.location, unit.slices, schema):
            rows += batch.num_rows
            size += batch.nbytes
            gathered.append(batch)
            if writer is None and size > job.memory_bytes // 2:
                sink = stack.enter_context(pa.OSFile(str(spool), "wb"))
                writer = stack.enter_context(pa.ipc.new_file(sink, schema))
            if writer is not None:
                for each in gathered:
                    writer.write_batch(each)
                gathered.clear()
    return gathered, size // max(1, rows) + 1


def _result(file: StagedFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "tenant": file.tenant,
        "day": file.day,
        "rows": file.rows,
        "size": file.size,
        "footer": file.footer,
    }
