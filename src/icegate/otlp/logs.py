"""Log records as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from icegate.otlp import anyvalue, arrays, flatten

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from icegate.otlp.arrays import Ints
    from icegate.otlp.flatten import Columns
    from icegate.otlp.request import Request


def columns(batch: pa.RecordBatch, requests: Sequence[Request]) -> tuple[Columns, Ints]:
    """The columns of topic ``logs``, and the index of each row's request.

    Args:
        batch: Decoded ``ExportLogsServiceRequest`` messages, one a request.
        requests: The requests.

    Raises:
        ValueError, DecodeError, MalformedRequest: Some attribute or body does not decode.
        TooExpansive: The rows would be too large.
    """
    rows = flatten.walk(batch, "scope_logs", "log_records")
    field = rows.records.field
    (own, resource, scope), (body,) = anyvalue.maps(
        [field("attributes"), rows.resource_attributes, rows.scope_attributes], field("body")
    )
    time = arrays.numbers(field("time_unix_nano"))
    observed = arrays.numbers(field("observed_time_unix_nano"))
    return {
        **flatten.shared(rows, requests, resource, scope),
        "timestamp": flatten.timestamps(np.where(time != 0, time, observed), rows, requests),
        "time_unix_nano": arrays.longs(time, time != 0),
        "observed_time_unix_nano": arrays.longs(observed, observed != 0),
        "trace_id": arrays.hex_text(field("trace_id")),
        "span_id": arrays.hex_text(field("span_id")),
        "severity_number": field("severity_number"),
        "severity_text": arrays.blank_to_null(field("severity_text")),
        "event_name": arrays.blank_to_null(field("event_name")),
        "body": body,
        "attributes": own,
        "dropped_attributes_count": arrays.longs(arrays.numbers(field("dropped_attributes_count"))),
        "flags": arrays.longs(arrays.numbers(field("flags"))),
    }, rows.request
