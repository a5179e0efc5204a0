"""The plain decoder: protobuf's own objects, one record after the other.

It says what the rows of a request are, and ``columnar`` must agree with it on every request; it also takes
over where ptars cannot be used. Clear rather than fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from icegate.errors import MalformedRequest
from icegate.otlp import limits
from icegate.otlp.request import Decoded
from icegate.otlp.text import any_value_text
from icegate.tables import segment_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
    from opentelemetry.proto.metrics.v1.metrics_pb2 import (
        Exemplar,
        ExponentialHistogramDataPoint,
        HistogramDataPoint,
        Metric,
        NumberDataPoint,
        SummaryDataPoint,
    )
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    from icegate.otlp.request import Request

    Row = dict[str, Any]
    Attributes = list[tuple[str, str | None]]
    Point = NumberDataPoint | HistogramDataPoint | ExponentialHistogramDataPoint | SummaryDataPoint

_LONG_MAX: Final = (1 << 63) - 1
#: What rows share, and so is on the wire once and in the table many times.
_SHARED: Final = (
    "service_name",
    "resource_attributes",
    "resource_schema_url",
    "scope_name",
    "scope_version",
    "scope_attributes",
    "scope_schema_url",
    "metric_name",
    "description",
    "unit",
)


def decode(topic: str, requests: Sequence[Request]) -> Decoded:
    """Decode a list of OTLP requests of one topic; a request that fails harms no other.

    Args:
        topic: ``logs``, ``traces`` or ``metrics``.
        requests: The requests; tenants may be mixed.
    """
    read = _READERS[topic]
    rows: list[Row] = []
    counts: list[int] = []
    failures: dict[int, MalformedRequest] = {}
    for index, request in enumerate(requests):
        try:
            found = list(read(request))
            _check_expansion(found)
        except DecodeError as error:
            failures[index], found = MalformedRequest(str(error)), []
        except MalformedRequest as error:
            failures[index], found = error, []
        rows += found
        counts.append(len(found))
    return Decoded(pa.Table.from_pylist(rows, schema=segment_schema(topic)), counts, failures)


def _logs(request: Request) -> Iterator[Row]:
    message = ExportLogsServiceRequest.FromString(request.payload)
    for group in message.resource_logs:
        resource = _resource(group.resource, group.schema_url)
        for scope_group in group.scope_logs:
            scope = _scope(scope_group.scope, scope_group.schema_url)
            for record in scope_group.log_records:
                yield _receipt(request) | resource | scope | _log(record, request)


def _traces(request: Request) -> Iterator[Row]:
    message = ExportTraceServiceRequest.FromString(request.payload)
    for group in message.resource_spans:
        resource = _resource(group.resource, group.schema_url)
        for scope_group in group.scope_spans:
            scope = _scope(scope_group.scope, scope_group.schema_url)
            for span in scope_group.spans:
                yield _receipt(request) | resource | scope | _span(span, request)


def _metrics(request: Request) -> Iterator[Row]:
    message = ExportMetricsServiceRequest.FromString(request.payload)
    for group in message.resource_metrics:
        resource = _resource(group.resource, group.schema_url)
        for scope_group in group.scope_metrics:
            scope = _scope(scope_group.scope, scope_group.schema_url)
            for metric in scope_group.metrics:
                for point in _points(metric, request):
                    yield _receipt(request) | resource | scope | point


_READERS: Final[dict[str, Callable[[Request], Iterator[Row]]]] = {
    "logs": _logs,
    "traces": _traces,
    "metrics": _metrics,
}


def _receipt(request: Request) -> Row:
    return {"tenant_id": request.tenant, "ingested_at": request.received_at}


def _resource(resource: Resource, schema_url: str) -> Row:
    attributes = _attributes(resource.attributes)
    return {
        "service_name": next((value for key, value in attributes if key == "service.name"), None),
        "resource_attributes": attributes,
        "resource_schema_url": schema_url or None,
    }


def _scope(scope: InstrumentationScope, schema_url: str) -> Row:
    return {
        "scope_name": scope.name or None,
        "scope_version": scope.version or None,
        "scope_attributes": _attributes(scope.attributes),
        "scope_schema_url": schema_url or None,
    }


def _log(record: LogRecord, request: Request) -> Row:
    return {
        "timestamp": _timestamp(record.time_unix_nano or record.observed_time_unix_nano, request),
        "time_unix_nano": _time(record.time_unix_nano),
        "observed_time_unix_nano": _time(record.observed_time_unix_nano),
        "trace_id": _hex(record.trace_id),
        "span_id": _hex(record.span_id),
        "severity_number": record.severity_number,
        "severity_text": record.severity_text or None,
        "event_name": record.event_name or None,
        "body": any_value_text(record.body),
        "attributes": _attributes(record.attributes),
        "dropped_attributes_count": record.dropped_attributes_count,
        "flags": record.flags,
    }


def _span(span: Span, request: Request) -> Row:
    start, end = _time(span.start_time_unix_nano), _time(span.end_time_unix_nano)
    return {
        "timestamp": _timestamp(span.start_time_unix_nano, request),
        "time_unix_nano": start,
        "trace_id": _hex(span.trace_id),
        "span_id": _hex(span.span_id),
        "parent_span_id": _hex(span.parent_span_id),
        "trace_state": span.trace_state or None,
        "name": span.name,
        "kind": span.kind,
        "end_time_unix_nano": end,
        "duration_nano": None if start is None or end is None else end - start,
        "status_code": span.status.code,
        "status_message": span.status.message or None,
        "events": [_event(event) for event in span.events],
        "links": [_link(link) for link in span.links],
        "attributes": _attributes(span.attributes),
        "dropped_attributes_count": span.dropped_attributes_count,
        "dropped_events_count": span.dropped_events_count,
        "dropped_links_count": span.dropped_links_count,
        "flags": span.flags,
    }


def _event(event: Span.Event) -> Row:
    return {
        "time_unix_nano": _time(event.time_unix_nano),
        "name": event.name,
        "attributes": _attributes(event.attributes),
        "dropped_attributes_count": event.dropped_attributes_count,
    }


def _link(link: Span.Link) -> Row:
    return {
        "trace_id": _hex(link.trace_id),
        "span_id": _hex(link.span_id),
        "trace_state": link.trace_state or None,
        "attributes": _attributes(link.attributes),
        "dropped_attributes_count": link.dropped_attributes_count,
        "flags": link.flags,
    }


def _points(metric: Metric, request: Request) -> Iterator[Row]:
    common: Row = {
        "metric_name": metric.name,
        "description": metric.description or None,
        "unit": metric.unit or None,
        "metric_type": metric.WhichOneof("data"),
    }
    _attributes(metric.metadata)  # not stored, but no reason to take what is refused elsewhere
    for gauge in metric.gauge.data_points:
        yield common | _point(gauge, request) | _number(gauge)
    for total in metric.sum.data_points:
        kind: Row = {
            "temporality": metric.sum.aggregation_temporality,
            "is_monotonic": metric.sum.is_monotonic,
        }
        yield common | kind | _point(total, request) | _number(total)
    for histogram in metric.histogram.data_points:
        kind = {"temporality": metric.histogram.aggregation_temporality}
        yield common | kind | _point(histogram, request) | _histogram(histogram)
    for exponential in metric.exponential_histogram.data_points:
        kind = {"temporality": metric.exponential_histogram.aggregation_temporality}
        yield common | kind | _point(exponential, request) | _exponential(exponential)
    for summary in metric.summary.data_points:
        yield common | _point(summary, request) | _summary(summary)


def _point(point: Point, request: Request) -> Row:
    return {
        "timestamp": _timestamp(point.time_unix_nano, request),
        "time_unix_nano": _time(point.time_unix_nano),
        "start_time_unix_nano": _time(point.start_time_unix_nano),
        "attributes": _attributes(point.attributes),
        "flags": point.flags,
    }


def _number(point: NumberDataPoint) -> Row:
    return {**_value(point), "exemplars": _exemplars(point.exemplars)}


def _value(message: NumberDataPoint | Exemplar) -> Row:
    return {
        "value_double": message.as_double if message.HasField("as_double") else None,
        "value_int": message.as_int if message.HasField("as_int") else None,
    }


def _measurements(point: HistogramDataPoint | ExponentialHistogramDataPoint) -> Row:
    return {
        "count": _long(point.count),
        "sum": point.sum if point.HasField("sum") else None,
        "min": point.min if point.HasField("min") else None,
        "max": point.max if point.HasField("max") else None,
        "exemplars": _exemplars(point.exemplars),
    }


def _histogram(point: HistogramDataPoint) -> Row:
    return {
        **_measurements(point),
        "bucket_counts": [_long(count) for count in point.bucket_counts],
        "explicit_bounds": list(point.explicit_bounds),
    }


def _exponential(point: ExponentialHistogramDataPoint) -> Row:
    row = {
        **_measurements(point),
        "scale": point.scale,
        "zero_count": _long(point.zero_count),
        "zero_threshold": point.zero_threshold,
    }
    if point.HasField("positive"):
        row["positive_offset"] = point.positive.offset
        row["positive_bucket_counts"] = [_long(count) for count in point.positive.bucket_counts]
    if point.HasField("negative"):
        row["negative_offset"] = point.negative.offset
        row["negative_bucket_counts"] = [_long(count) for count in point.negative.bucket_counts]
    return row


def _summary(point: SummaryDataPoint) -> Row:
    return {
        "count": _long(point.count),
        "sum": point.sum,
        "quantiles": [{"quantile": q.quantile, "value": q.value} for q in point.quantile_values],
    }


def _exemplars(exemplars: Iterable[Exemplar]) -> list[Row]:
    return [
        {
            "time_unix_nano": _time(exemplar.time_unix_nano),
            **_value(exemplar),
            "trace_id": _hex(exemplar.trace_id),
            "span_id": _hex(exemplar.span_id),
            "filtered_attributes": _attributes(exemplar.filtered_attributes),
        }
        for exemplar in exemplars
    ]


def _attributes(attributes: Iterable[KeyValue]) -> Attributes:
    return [(item.key, any_value_text(item.value)) for item in attributes]


def _timestamp(nanos: int, request: Request) -> int:
    return _long(nanos) // 1000 if nanos else request.received_at


def _time(nanos: int) -> int | None:
    return _long(nanos) or None


def _long(value: int) -> int:
    return min(value, _LONG_MAX)


def _hex(identity: bytes) -> str | None:
    return identity.hex() or None


def _check_expansion(rows: Sequence[Row]) -> None:
    size = sum(_size(row.get(name)) for row in rows for name in _SHARED)
    if size > limits.MAX_EXPANSION:
        raise limits.TooExpansive(size)


def _size(value: str | Attributes | None) -> int:
    match value:
        case None:
            return 0
        case str():
            return len(value.encode())
        case _:
            return sum(_size(key) + _size(text) for key, text in value)
