"""Between our tables and Iceberg's: field ids for the files to write, and descriptions of those written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import ListType, MapType, StructType

from icegate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType

    from icegate.tables import Table
    from icegate_compactor.files import StagedFile

_FIELD_ID = "PARQUET:field_id"


def file_schema(table: Table, schema: Schema) -> pa.Schema:
    """The Arrow schema of a table's files: our columns and types, Iceberg's field ids.

    Raises:
        ConfigError: the Iceberg table lacks a column.
    """
    fields = []
    for column in table.columns:
        try:
            found = schema.find_field(column.name)
        except ValueError as error:
            raise ConfigError(
                f"table {table.name} has no column {column.name!r}, which this version writes: add it to the table"
            ) from error
        fields.append(_field(column.arrow(), found.field_id, found.field_type))
    return pa.schema(fields)


def data_folder(metadata: TableMetadata) -> str:
    """The address below which a table's data files go."""
    return str(metadata.properties.get("write.data.path", f"{metadata.location}/data")).rstrip("/")


def check_partitioning(table: Table, metadata: TableMetadata) -> None:
    """Refuse a table whose files are to be partitioned in another way than ours are.

    Raises:
        ConfigError: it is not partitioned by tenant and day.
    """
    schema = metadata.schema()
    found = [(schema.find_column_name(part.source_id), part.transform) for part in metadata.spec().fields]
    if found != [("tenant_id", IdentityTransform()), ("timestamp", DayTransform())]:
        raise ConfigError(f"table {table.name} is not partitioned by tenant_id, day(timestamp): {metadata.spec()}")


def data_files(metadata: TableMetadata, files: Sequence[StagedFile]) -> list[DataFile]:
    """Describe staged files as a snapshot of the table wants them."""
    schema = metadata.schema()
    statistics_plan = compute_statistics_plan(schema, metadata.properties)
    field_ids = parquet_path_to_id_mapping(schema)
    described = []
    for file in files:
        statistics = data_file_statistics_from_parquet_metadata(
            pq.read_metadata(pa.BufferReader(file.footer)), statistics_plan, field_ids
        )
        described.append(
            DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=file.path,
                file_format=FileFormat.PARQUET,
                partition=Record(file.tenant, file.day),
                file_size_in_bytes=file.size,
                sort_order_id=None,
                spec_id=metadata.default_spec_id,
                equality_ids=None,
                key_metadata=None,
                **statistics.to_serialized_dict(),
            )
        )
    return described


def _field(ours: pa.Field, field_id: int, kind: IcebergType) -> pa.Field:
    return pa.field(ours.name, _type(ours.type, kind), ours.nullable, {_FIELD_ID: str(field_id)})


def _type(ours: pa.DataType, kind: IcebergType) -> pa.DataType:
    match kind:
        case MapType():
            key = _field(pa.field("key", ours.key_type, nullable=False), kind.key_id, kind.key_type)
            return pa.map_(key, _field(pa.field("value", ours.item_type), kind.value_id, kind.value_type))
        case ListType():
            return pa.list_(_field(pa.field("element", ours.value_type), kind.element_id, kind.element_type))
        case StructType():
            parts = {part.name: part for part in kind.fields}
            return pa.struct([_field(each, parts[each.name].field_id, parts[each.name].field_type) for each in ours])
        case _:
            return ours
