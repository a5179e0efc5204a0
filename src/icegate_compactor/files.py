"""Write sorted rows as table files, in a Spark task: one file per tenant and day."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icegate.storage import path_of
from icegate.storage.local import DurableFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from icegate.storage import Location

_DAY_MICROSECONDS: Final = 24 * 3600 * 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: A row group is written when it has so many rows or so many bytes.
_GROUP_ROWS: Final = 65_536
_GROUP_BYTES: Final = 128 * 1024 * 1024
_FALSE_POSITIVES: Final = 0.01


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A written file that no snapshot refers to yet. ``day``: since the epoch; ``footer``: Parquet metadata."""

    path: str
    tenant: str
    day: int
    rows: int
    size: int
    footer: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """Where files go and what they look like. ``schema`` carries Iceberg's field ids."""

    location: Location
    folder: str
    schema: pa.Schema
    bloom_filters: tuple[str, ...]


def write_files(batches: Iterable[pa.RecordBatch], target: Target) -> Iterator[StagedFile]:
    """Write rows that are sorted by tenant and day; local files are durable when they are yielded."""
    current: _File | None = None
    for batch in batches:
        for tenant, day, rows in _partitions(batch):
            if current is None or (current.tenant, current.day) != (tenant, day):
                if current is not None:
                    yield current.close()
                current = _File(target, tenant, day)
            current.add(rows)
    if current is not None:
        yield current.close()


def _partitions(batch: pa.RecordBatch) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    tenants = batch.column("tenant_id")
    days = batch.column("timestamp").cast(pa.int64()).to_numpy() // _DAY_MICROSECONDS
    changes = pc.not_equal(tenants[1:], tenants[:-1]).to_numpy(zero_copy_only=False) | (days[1:] != days[:-1])
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
    for start, end in itertools.pairwise(starts):
        yield tenants[start].as_py(), int(days[start]), batch.slice(start, end - start)


class _File:
    def __init__(self, target: Target, tenant: str, day: int) -> None:
        self.tenant = tenant
        self.day = day
        self._target = target
        date = (_EPOCH + timedelta(days=day)).date()
        self._path = f"{target.folder}/tenant_id={quote(tenant, safe='')}/timestamp_day={date}/{uuid.uuid4()}.parquet"
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._sink: Any = None
        self._writer: pq.ParquetWriter | None = None
        self._metadata: list[pq.FileMetaData] = []

    def add(self, rows: pa.RecordBatch) -> None:
        self._pending.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def close(self) -> StagedFile:
        if self._pending:
            self._write_group()
        assert self._writer is not None  # noqa: S101 - a file is only made for rows
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        metadata = self._metadata[0]
        footer = pa.BufferOutputStream()
        metadata.write_metadata_file(footer)
        return StagedFile(self._path, self.tenant, self.day, metadata.num_rows, size, footer.getvalue().to_pybytes())

    def _write_group(self) -> None:
        if self._writer is None:
            self._writer = self._open()
        table = pa.Table.from_batches(self._pending).cast(self._target.schema)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._pending, self._rows, self._bytes = [], 0, 0

    def _open(self) -> pq.ParquetWriter:
        """Open at the first row group, whose size is the best guess for the bloom filters'."""
        location = self._target.location
        if location.is_local:
            self._sink = DurableFile(Path(path_of(self._path)))
        else:
            self._sink = location.open_filesystem().open_output_stream(path_of(self._path))
        return pq.ParquetWriter(
            self._sink,
            self._target.schema,
            compression="zstd",
            store_schema=False,  # the field ids say all
            write_page_index=True,
            bloom_filter_options=_bloom_filters(self._target.bloom_filters, self._rows),
            metadata_collector=self._metadata,
        )


def _bloom_filters(columns: Sequence[str], rows: int) -> dict[str, dict[str, float]]:
    return {column: {"ndv": rows, "fpp": _FALSE_POSITIVES} for column in columns}
