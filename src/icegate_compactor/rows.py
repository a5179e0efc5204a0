"""Read a unit's rows out of the log, in a Spark task: exactly those that the footers promised."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from icegate.errors import FormatTooNew, SegmentCorrupt, StorageError
from icegate.storage import path_of
from icegate.wal import read_segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from icegate.storage import Location
    from icegate.wal import SegmentKey
    from icegate_compactor.units import Slice

_BATCH_ROWS: Final = 8192
_BATCH_BYTES: Final = 4 * 1024 * 1024


def read_rows(location: Location, slices: Sequence[Slice], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The slices' rows in a table's schema, which says where in the log each came from; segment by segment.

    Raises:
        ObjectNotFound: a segment was cleaned meanwhile.
        SegmentCorrupt, FormatTooNew: a segment cannot be used, or has fewer rows than its footer said.
        StorageError: it could not be read this time.
    """
    files = location.open_filesystem()
    for key, of_segment in groupby(slices, key=lambda each: each.segment):
        try:
            with files.open_input_file(path_of(location.uri(key.path))) as source:
                file = pq.ParquetFile(source, pre_buffer=True, page_checksum_verification=True)
                for each in of_segment:
                    yield from _read_slice(file, each, schema)
        except (pa.ArrowException, OSError) as error:
            read_segment(location.open_store(), key)  # raises what is wrong with it, if it is the segment
            raise StorageError(f"cannot read segment {key}: {error}") from error


def _read_slice(file: pq.ParquetFile, wanted: Slice, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    groups, first_row, row_bytes = _row_groups(file.metadata, wanted)
    batch_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // row_bytes))
    skip, left = wanted.first_row - first_row, wanted.rows
    if groups:
        for batch in file.iter_batches(batch_rows, row_groups=groups, use_threads=False):
            piece = batch.slice(skip, left)
            skip = max(0, skip - batch.num_rows)
            left -= piece.num_rows
            if piece.num_rows:
                yield _placed(piece, wanted.segment, schema)
    if left:
        raise SegmentCorrupt(f"segment {wanted.segment} has {left} rows fewer than its footer says")


def _row_groups(metadata: pq.FileMetaData, wanted: Slice) -> tuple[list[int], int, int]:
    """The row groups that hold a slice, the number of the first row in them, a row's bytes where rows are largest."""
    groups: list[int] = []
    first_row = start = 0
    row_bytes = 1
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        end = start + group.num_rows
        if start < wanted.first_row + wanted.rows and end > wanted.first_row:
            if not groups:
                first_row = start
            groups.append(number)
            row_bytes = max(row_bytes, group.total_byte_size // group.num_rows)
        start = end
    return groups, first_row, row_bytes


def _placed(batch: pa.RecordBatch, key: SegmentKey, schema: pa.Schema) -> pa.RecordBatch:
    """A segment's rows in the table's schema; columns that an older segment lacks are null."""
    unknown = set(batch.schema.names) - set(schema.names)
    if unknown:
        raise FormatTooNew(f"segment {key} has columns that this version does not know: {sorted(unknown)}; upgrade it")
    place = {"wal_shard": key.shard.number, "wal_offset": key.offset}
    columns = [
        batch.column(each.name)
        if each.name in batch.schema.names
        else pa.repeat(pa.scalar(place.get(each.name), each.type), batch.num_rows)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
