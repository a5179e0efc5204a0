"""Data files as a compactor stages them: written, and in no table yet."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from icegate.catalog.open import identifier

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from icegate.tables import Table

DAY_MICROS = 86_400_000_000
DAY = 19_000


def stage(catalog: Catalog, table: Table, offset: int, *tenants: str) -> list[DataFile]:
    """One file a tenant, of one row that says which offset it came from."""
    return [_file(catalog, table, offset, tenant) for tenant in tenants]


def _file(catalog: Catalog, table: Table, offset: int, tenant: str) -> DataFile:
    loaded = catalog.load_table(identifier(table))
    row = {"tenant_id": tenant, "timestamp": DAY * DAY_MICROS, "ingested_at": 0, "wal_shard": 0, "wal_offset": offset}
    schema = schema_to_pyarrow(loaded.schema())
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist([row], schema=schema), sink)
    data = bytes(sink.getvalue())
    address = f"{loaded.location()}/data/{uuid.uuid4()}.parquet"
    with loaded.io.new_output(address).create() as stream:
        stream.write(data)
    statistics = data_file_statistics_from_parquet_metadata(
        pq.read_metadata(pa.BufferReader(data)),
        compute_statistics_plan(loaded.schema(), loaded.properties),
        parquet_path_to_id_mapping(loaded.schema()),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=address,
        file_format=FileFormat.PARQUET,
        partition=Record(tenant, DAY),
        file_size_in_bytes=len(data),
        spec_id=0,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def stored(catalog: Catalog, table: Table) -> list[tuple[str, int]]:
    """(tenant, offset) of every row of the table."""
    frame = catalog.load_table(identifier(table)).scan(selected_fields=("tenant_id", "wal_offset")).to_arrow()
    return sorted(zip(frame["tenant_id"].to_pylist(), frame["wal_offset"].to_pylist(), strict=True))
