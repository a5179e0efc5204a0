"""The fast decoder: ptars reads whole lists of requests into Arrow arrays, numpy and Arrow flatten them.

ptars is young, so nothing relies on it refusing bad input: it takes some that protobuf refuses (packed
fields cut short, unmatched groups), panics on some lengths, and on groups nested a hundred thousand deep it
overflows the stack, which ends the process. So each payload goes through protobuf's own parser first. What
still fails together is tried in halves; what fails alone is refused if the reason is certain, and otherwise
left to the plain decoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from icegate.errors import MalformedRequest
from icegate.otlp import logs, metrics, plain, traces
from icegate.otlp.descriptors import checker, handler
from icegate.otlp.panics import panicked
from icegate.otlp.request import Decoded
from icegate.tables import segment_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from icegate.otlp.request import Request

#: Payload bytes in one call of ptars: its arrays have 32-bit offsets, and text may grow as JSON.
CALL_BYTES: Final = 32 << 20

_COLUMNS: Final = {"logs": logs.columns, "traces": traces.columns, "metrics": metrics.columns}


def decode(topic: str, requests: Sequence[Request]) -> Decoded:
    """Decode a list of OTLP requests of one topic; a request that fails harms no other.

    Args:
        topic: ``logs``, ``traces`` or ``metrics``.
        requests: The requests; tenants may be mixed.
    """
    work = _Work(topic, requests)
    sound = [index for index in range(len(requests)) if work.check(index)]
    for indices in _calls(requests, sound):
        work.decode(indices)
    table = pa.Table.from_batches(work.batches, segment_schema(topic))
    return Decoded(table, work.rows, work.failures)


def batch(topic: str, requests: list[Request]) -> tuple[pa.RecordBatch, list[int]]:
    """The rows of requests that protobuf can read, and their number by request.

    Raises:
        ValueError, DecodeError, MalformedRequest: Some request fails; it is not said which.
        PanicException: ptars failed; see ``panicked``.
    """
    nested = handler(topic).list_to_record_batch([request.payload for request in requests])
    columns, request = _COLUMNS[topic](nested, requests)
    schema = segment_schema(topic)
    rows = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
    return rows, np.bincount(request, minlength=len(requests)).tolist()


def _calls(requests: Sequence[Request], indices: Sequence[int]) -> Iterator[list[int]]:
    call: list[int] = []
    size = 0
    for index in indices:
        size += len(requests[index].payload)
        if call and size > CALL_BYTES:
            yield call
            call, size = [], len(requests[index].payload)
        call.append(index)
    if call:
        yield call


class _Work:
    """Requests on their way into a table."""

    def __init__(self, topic: str, requests: Sequence[Request]) -> None:
        self.topic = topic
        self.requests = requests
        self.batches: list[pa.RecordBatch] = []
        self.rows = [0] * len(requests)
        self.failures: dict[int, MalformedRequest] = {}

    def check(self, index: int) -> bool:
        """See whether protobuf can read the message, attribute values and bodies excepted."""
        try:
            checker(self.topic).FromString(self.requests[index].payload)
        except DecodeError as error:
            self.failures[index] = MalformedRequest(str(error))
            return False
        return True

    def decode(self, indices: list[int]) -> None:
        try:
            rows, counts = batch(self.topic, [self.requests[index] for index in indices])
        except (ValueError, DecodeError, MalformedRequest) as error:
            self.decode_apart(indices, error)
        except BaseException as error:
            if not panicked(error):
                raise
            self.decode_apart(indices, error)
        else:
            self.batches.append(rows)
            for index, count in zip(indices, counts, strict=True):
                self.rows[index] = count

    def decode_apart(self, indices: list[int], error: BaseException) -> None:
        half = len(indices) // 2
        if half:
            self.decode(indices[:half])
            self.decode(indices[half:])
        elif isinstance(error, (DecodeError, MalformedRequest)):
            self.failures[indices[0]] = MalformedRequest(str(error))
        else:
            self.decode_plainly(indices[0])

    def decode_plainly(self, index: int) -> None:
        alone = plain.decode(self.topic, [self.requests[index]])
        self.batches += alone.table.to_batches()
        self.rows[index] = alone.rows[0]
        if alone.failures:
            self.failures[index] = alone.failures[0]
