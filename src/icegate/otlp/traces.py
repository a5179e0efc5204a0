"""Spans as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from icegate.otlp import anyvalue, arrays, flatten
from icegate.tables.spans import SPAN_EVENT, SPAN_LINK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from icegate.otlp.arrays import Ints
    from icegate.otlp.flatten import Columns
    from icegate.otlp.request import Request


def columns(batch: pa.RecordBatch, requests: Sequence[Request]) -> tuple[Columns, Ints]:
    """The columns of topic ``traces``, and the index of each row's request.

    Args:
        batch: Decoded ``ExportTraceServiceRequest`` messages, one a request.
        requests: The requests.

    Raises:
        ValueError, DecodeError, MalformedRequest: Some attribute does not decode.
        TooExpansive: The rows would be too large.
    """
    rows = flatten.walk(batch, "scope_spans", "spans")
    field = rows.records.field
    events, links, status = field("events"), field("links"), field("status")
    (own, of_event, of_link, resource, scope), _ = anyvalue.maps(
        [
            field("attributes"),
            events.values.field("attributes"),
            links.values.field("attributes"),
            rows.resource_attributes,
            rows.scope_attributes,
        ]
    )
    start = arrays.numbers(field("start_time_unix_nano"))
    end = arrays.numbers(field("end_time_unix_nano"))
    return {
        **flatten.shared(rows, requests, resource, scope),
        "timestamp": flatten.timestamps(start, rows, requests),
        "time_unix_nano": arrays.longs(start, start != 0),
        "trace_id": arrays.hex_text(field("trace_id")),
        "span_id": arrays.hex_text(field("span_id")),
        "parent_span_id": arrays.hex_text(field("parent_span_id")),
        "trace_state": arrays.blank_to_null(field("trace_state")),
        "name": field("name"),
        "kind": field("kind"),
        "end_time_unix_nano": arrays.longs(end, end != 0),
        "duration_nano": arrays.longs(end - start, (start != 0) & (end != 0)),
        "status_code": status.field("code"),
        "status_message": arrays.blank_to_null(status.field("message")),
        "events": arrays.lists(events, _events(events.values, of_event), pa.list_(SPAN_EVENT)),
        "links": arrays.lists(links, _links(links.values, of_link), pa.list_(SPAN_LINK)),
        "attributes": own,
        "dropped_attributes_count": arrays.longs(arrays.numbers(field("dropped_attributes_count"))),
        "dropped_events_count": arrays.longs(arrays.numbers(field("dropped_events_count"))),
        "dropped_links_count": arrays.longs(arrays.numbers(field("dropped_links_count"))),
        "flags": arrays.longs(arrays.numbers(field("flags"))),
    }, rows.request


def _events(events: pa.StructArray, attributes: pa.MapArray) -> pa.StructArray:
    return pa.StructArray.from_arrays(
        [
            arrays.times(events.field("time_unix_nano")),
            events.field("name"),
            attributes,
            arrays.longs(arrays.numbers(events.field("dropped_attributes_count"))),
        ],
        fields=list(SPAN_EVENT),
    )


def _links(links: pa.StructArray, attributes: pa.MapArray) -> pa.StructArray:
    return pa.StructArray.from_arrays(
        [
            arrays.hex_text(links.field("trace_id")),
            arrays.hex_text(links.field("span_id")),
            arrays.blank_to_null(links.field("trace_state")),
            attributes,
            arrays.longs(arrays.numbers(links.field("dropped_attributes_count"))),
            arrays.longs(arrays.numbers(links.field("flags"))),
        ],
        fields=list(SPAN_LINK),
    )
