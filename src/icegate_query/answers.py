"""Answers, and the forms they are sent in.

In JSON and NDJSON a map or struct is an object, a list an array, a timestamp ISO 8601 text with microseconds (``Z`` if
it has a time zone), binary hex text, and what is no JSON number (NaN, infinities) null. 64-bit integers are numbers:
a reader that holds numbers as doubles loses digits beyond 2^53. In CSV, nested values are their JSON text, null is
an empty field and an empty string is ``""``.
"""

from __future__ import annotations

import io
import time
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import arro3.io
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from icegate.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from icegate_query.cut import TableCut
    from icegate_query.engine import Execution

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"
ARROW: Final = "application/vnd.apache.arrow.stream"

_NULL: Final = b"null"


class Answer:
    """A query's rows, once, in order; and the cut they were read from.

    Iterating raises what ``QueryService.execute`` raises: a failure may come after the first rows, and an answer
    that was not read to its end without an error is not complete. Close it, or read it to its end.
    """

    def __init__(self, execution: Execution, cut: Sequence[TableCut], *, max_rows: int, started: float) -> None:
        self.schema: pa.Schema = execution.schema
        self.cut = tuple(cut)
        self._max_rows = max_rows
        self._started = started
        self._execution = execution
        first = next(execution, None)
        self._batches = chain(() if first is None else (first,), execution)

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds since the query arrived."""
        return round((time.monotonic() - self._started) * 1000, 3)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def collect(self) -> tuple[pa.Table, bool]:
        """The first ``max_rows`` rows, and whether there are more."""
        kept: list[pa.RecordBatch] = []
        rows = 0
        with self:
            for batch in self:
                kept.append(batch)
                rows += batch.num_rows
                if rows > self._max_rows:
                    break
        return pa.Table.from_batches(kept, self.schema).slice(0, self._max_rows), rows > self._max_rows

    def describe_cut(self) -> dict[str, Any]:
        """Per table the snapshot, the position and the number of segments after it."""
        return {
            each.table.name: {
                "snapshot_id": None if each.base.snapshot_id is None else str(each.base.snapshot_id),
                "position": {str(shard): each.base.position[shard] for shard in each.base.position},
                "tail_segments": len(each.tail),
            }
            for each in self.cut
        }

    def close(self) -> None:
        """Cancel what is still to come."""
        self._execution.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def to_json(answer: Answer) -> bytes:
    """The whole answer as one JSON object, up to its cap on rows.

    Raises:
        IceGateError: the query failed.
    """
    table, truncated = answer.collect()
    names = [str(index) for index in range(table.num_columns)]  # columns may share a name, keys may not
    objects = msgspec.json.Decoder(dict[str, Any]).decode_lines(
        b"".join(_json_lines(batch.rename_columns(names)) for batch in table.to_batches())
    )
    return msgspec.json.encode(
        {
            "columns": [{"name": each.name, "type": str(each.type)} for each in answer.schema],
            "rows": [list(each.values()) for each in objects],
            "row_count": table.num_rows,
            "truncated": truncated,
            "cut": answer.describe_cut(),
            "elapsed_ms": answer.elapsed_ms,
        }
    )


def to_ndjson(answer: Answer) -> Iterator[bytes]:
    """One object a row.

    Raises:
        QueryError: two columns share a name.
    """
    names = answer.schema.names
    if len(set(names)) < len(names):
        raise QueryError(f"columns need different names to be sent as {NDJSON}: give them one with AS")
    return map(_json_lines, answer)


def to_csv(answer: Answer) -> Iterator[bytes]:
    """A header line, then one line a row."""
    header = csv.WriteOptions(include_header=True)
    rows = csv.WriteOptions(include_header=False)
    texts = [pa.field(each.name, _csv_type(each.type)) for each in answer.schema]
    yield _csv(pa.RecordBatch.from_pylist([], schema=pa.schema(texts)), header)
    for batch in answer:
        columns = [_csv_column(column) for column in batch.columns]
        yield _csv(pa.RecordBatch.from_arrays(columns, schema=pa.schema(texts)), rows)


def to_arrow(answer: Answer) -> Iterator[bytes]:
    """An Arrow IPC stream."""
    sink = _Sink()
    with pa.ipc.new_stream(sink, answer.schema) as writer:
        for batch in answer:
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


#: The forms that are sent while they are computed; they have no cap on rows.
STREAMS: Final[dict[str, Callable[[Answer], Iterator[bytes]]]] = {NDJSON: to_ndjson, CSV: to_csv, ARROW: to_arrow}


class _Sink(io.RawIOBase):
    """What has been written since it was last taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken


def _json_lines(batch: pa.RecordBatch) -> bytes:
    columns = [_iso(column) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
    sink = io.BytesIO()
    arro3.io.write_ndjson(pa.RecordBatch.from_arrays(columns, names=batch.schema.names), sink, explicit_nulls=True)
    return sink.getvalue()


def _iso(column: pa.Array) -> pa.Array:
    """ISO 8601 text, in UTC where there is a time zone; always with microseconds, so that it sorts as text."""
    zone = "UTC" if column.type.tz else None
    return pc.replace_substring(column.cast(pa.timestamp("us", zone), safe=False).cast(pa.string()), " ", "T")


def _csv(batch: pa.RecordBatch, options: csv.WriteOptions) -> bytes:
    sink = io.BytesIO()
    csv.write_csv(batch, sink, options)
    return sink.getvalue()


def _csv_type(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    as_it_is = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    return kind if as_it_is else pa.string()


def _csv_column(column: pa.Array) -> pa.Array:
    if _csv_type(column.type) == column.type:
        return column
    if pa.types.is_timestamp(column.type):
        return _iso(column)
    # The JSON form, without its quotes where it is a string (dates, times, binary).
    lines = _json_lines(pa.RecordBatch.from_arrays([column], names=[""])).splitlines()
    return pa.array([_text(line.removeprefix(b'{"":').removesuffix(b"}")) for line in lines], pa.string())


def _text(json: bytes) -> str | None:
    if json == _NULL:
        return None
    return msgspec.json.decode(json, type=str) if json.startswith(b'"') else json.decode()
