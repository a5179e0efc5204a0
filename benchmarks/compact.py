"""Compaction of log rows in rows per CPU second, next to DataFusion alone sorting and writing the same rows.

    python benchmarks/compact.py [ROWS]

CPU is that of the driver, the JVM and Spark's Python workers together. The first compaction pays for starting Spark
and for the workers' imports; the second, of other rows in the same session, is what a loop pays.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

from icegate.catalog.open import CatalogOptions
from icegate.clock import SystemClock
from icegate.storage import Location
from icegate.tables import segment_schema
from icegate.wal import Appender, Batch, Shard, encode
from icegate_compactor import CompactOptions, Compactor, SparkOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

TENANTS = ("acme", "globex", "initech")
SEGMENTS = 20
START = 1_750_000_000_000_000
TICKS = os.sysconf("SC_CLK_TCK")


def record(random: Random, tenant: str, number: int) -> dict[str, Any]:
    """A log record with 10 resource attributes and 8 of its own."""
    at = START + random.randrange(2 * 86_400_000_000)
    return {
        "tenant_id": tenant,
        "timestamp": at,
        "time_unix_nano": at * 1000,
        "service_name": f"service-{random.randrange(20)}",
        "observed_time_unix_nano": at * 1000 + 7,
        "trace_id": f"{random.getrandbits(128):032x}",
        "span_id": f"{random.getrandbits(64):016x}",
        "severity_number": 9,
        "severity_text": "INFO",
        "body": f"request {number} took {random.random():.6f} s for user {random.randrange(100_000)}",
        "attributes": [(f"http.attribute.{n}", f"value {random.randrange(1_000_000)}") for n in range(8)],
        "resource_attributes": [(f"k8s.attribute.{n}", f"value-{random.randrange(50)}") for n in range(10)],
        "scope_name": "library",
        "dropped_attributes_count": 0,
        "flags": 1,
        "ingested_at": at,
    }


def fill(location: Location, rows: int, seed: int) -> None:
    """Append the rows in segments."""
    random = Random(seed)
    appender = Appender(location.open_store(), Shard("logs", 0), clock=SystemClock(), random=random)
    share = rows // SEGMENTS // len(TENANTS)
    for _ in range(SEGMENTS):
        records = [record(random, tenant, n) for tenant in TENANTS for n in range(share)]
        table = pa.Table.from_pylist(records, schema=segment_schema("logs"))
        batches = [Batch(tenant, share) for tenant in TENANTS]
        encoded = encode("logs", table, batches, attempt=str(uuid.uuid4()), writer="benchmark", created=START)
        appender.append(encoded, timeout=60)


def cpu_seconds() -> float:
    """CPU of this process and all its descendants, those that ended included."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(pid)
        used[pid] = sum(int(ticks) for ticks in fields[11:15])
    total, open_pids = 0, [os.getpid()]
    while open_pids:
        pid = open_pids.pop()
        total += used.get(pid, 0)
        open_pids += children.get(pid, [])
    return total / TICKS


@contextmanager
def measured(name: str, rows: int) -> Iterator[None]:
    """Print what the block cost."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    yield
    cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
    print(f"{name:42}{cpu:7.2f} CPU s {wall:7.2f} s wall {rows / cpu:10,.0f} rows / CPU s", flush=True)


def datafusion_alone(location: Location, to: Path) -> None:
    """Sort all rows by tenant, day, service and time into one file; no origin columns, no partitions."""
    config = SessionConfig(
        {"datafusion.execution.target_partitions": "1", "datafusion.execution.parquet.compression": "zstd(1)"}
    )
    context = SessionContext(config, RuntimeEnvBuilder().with_fair_spill_pool(1 << 30).with_disk_manager_os())
    paths = ", ".join(f"'{path}'" for path in sorted(Path(location.url, "wal/logs/0000").glob("*.parquet")))
    context.sql(f"CREATE EXTERNAL TABLE wal STORED AS PARQUET LOCATION ({paths})")
    order = 'tenant_id, date_trunc(\'day\', "timestamp"), service_name, "timestamp"'
    context.sql(f"COPY (SELECT * FROM wal ORDER BY {order}) TO '{to}' STORED AS PARQUET").collect()


def main() -> None:
    """Print the figures."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    rows -= rows % (SEGMENTS * len(TENANTS))
    with tempfile.TemporaryDirectory() as folder:
        locations = [Location.parse(f"{folder}/{name}") for name in ("first", "second")]
        for seed, location in enumerate(locations):
            fill(location, rows, seed)
        print(f"{rows:,} rows in {SEGMENTS} segments")
        spark = SparkOptions()
        compactors = [Compactor(each, CatalogOptions(), spark, CompactOptions()) for each in locations]
        try:
            for name, compactor in zip(("compactor, Spark starts", "compactor, Spark runs"), compactors, strict=True):
                with measured(name, rows):
                    reports = compactor.run_once()
                assert reports[0].rows == rows  # noqa: S101 - a figure for less would be wrong
        finally:
            for compactor in compactors:
                compactor.close()
        for number, location in enumerate(locations):
            with measured(f"DataFusion alone, sort and write ({number + 1})", rows):
                datafusion_alone(location, Path(folder) / f"{number}.parquet")


if __name__ == "__main__":
    main()
