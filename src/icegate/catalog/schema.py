"""Table definitions in Iceberg's terms."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from icegate.tables import Table

TENANT_PARTITION = "tenant_id"
DAY_PARTITION = "timestamp_day"
_PARTITION_FIELD_ID = 1000  # where the Iceberg specification starts them

_SCALARS: dict[pa.DataType, IcebergType] = {
    pa.string(): StringType(),
    pa.bool_(): BooleanType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float64(): DoubleType(),
    pa.timestamp("us", tz="UTC"): TimestamptzType(),
}


def iceberg_schema(table: Table) -> Schema:
    """The table's columns, with ids counted from 1 (a catalog may number them anew at creation)."""
    ids = count(1)
    top = [(next(ids), column) for column in table.columns]
    return Schema(
        *(
            NestedField(number, column.name, _type(column.type, ids), required=column.required, doc=column.doc)
            for number, column in top
        )
    )


def partition_spec(schema: Schema) -> PartitionSpec:
    """``identity(tenant_id), day(timestamp)``."""
    tenant, time = schema.find_field("tenant_id").field_id, schema.find_field("timestamp").field_id
    return PartitionSpec(
        PartitionField(tenant, _PARTITION_FIELD_ID, IdentityTransform(), TENANT_PARTITION),
        PartitionField(time, _PARTITION_FIELD_ID + 1, DayTransform(), DAY_PARTITION),
    )


def sort_order(table: Table, schema: Schema) -> SortOrder:
    """Ascending, nulls last, as the compactor sorts."""
    return SortOrder(
        *(
            SortField(
                source_id=schema.find_field(name).field_id,
                transform=IdentityTransform(),
                direction=SortDirection.ASC,
                null_order=NullOrder.NULLS_LAST,
            )
            for name in table.sort_by
        )
    )


def _type(kind: pa.DataType, ids: Iterator[int]) -> IcebergType:
    if kind in _SCALARS:
        return _SCALARS[kind]
    if pa.types.is_map(kind):
        key, value = next(ids), next(ids)
        return MapType(key, _type(kind.key_type, ids), value, _type(kind.item_type, ids), value_required=False)
    if pa.types.is_list(kind):
        element = next(ids)
        return ListType(element, _type(kind.value_type, ids), element_required=False)
    if pa.types.is_struct(kind):
        fields = [(next(ids), field) for field in kind]
        return StructType(
            *(NestedField(number, field.name, _type(field.type, ids), required=False) for number, field in fields)
        )
    raise TypeError(f"no Iceberg type for {kind}")
