"""What goes into a decoder and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from icegate.errors import MalformedRequest


@dataclass(frozen=True, slots=True)
class Request:
    """One OTLP export call.

    Attributes:
        tenant: Who sent it; becomes ``tenant_id``.
        payload: The serialized ``Export{Logs,Trace,Metrics}ServiceRequest``, already decompressed.
        received_at: Microseconds since the epoch, UTC; becomes ``ingested_at``, and ``timestamp`` of the
            records that carry no time.
    """

    tenant: str
    payload: bytes
    received_at: int


@dataclass(frozen=True, slots=True)
class Decoded:
    """What came of a list of requests.

    Attributes:
        table: The rows of all requests that decoded, in request order and, within one, in the order sent. Its
            schema is ``segment_schema(topic)``; it may have several chunks.
        rows: How many rows each request contributed; 0 for those that failed.
        failures: Why a request was refused, by its index in the list.
    """

    table: pa.Table
    rows: Sequence[int]
    failures: Mapping[int, MalformedRequest]
