"""A trial of the columnar decoder against the plain one, before it is trusted with data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue

from icegate.otlp import plain
from icegate.otlp.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable


def run(batch: Callable[[str, list[Request]], tuple[pa.RecordBatch, list[int]]]) -> None:
    """Decode a small request of each topic both ways.

    Args:
        batch: Decodes sound requests to rows and their number by request, without falling back on anything.

    Raises:
        RuntimeError: The results differ.
        Exception: Whatever ``batch`` raises.
    """
    for topic, message in (("logs", _logs()), ("traces", _traces()), ("metrics", _metrics())):
        requests = [Request("a", message.SerializeToString(), 1), Request("b", b"", 2)]
        rows, counts = batch(topic, requests)
        expected = plain.decode(topic, requests)
        if counts != list(expected.rows) or not pa.Table.from_batches([rows]).equals(expected.table):
            raise RuntimeError(f"ptars decodes a sample of {topic} to other rows than protobuf")


def _attributes() -> list[KeyValue]:
    values = (
        AnyValue(string_value="text"),
        AnyValue(int_value=-1),
        AnyValue(bool_value=True),
        AnyValue(double_value=0.5),
        AnyValue(array_value=ArrayValue(values=[AnyValue(), AnyValue(bytes_value=b"\0")])),
        AnyValue(),
    )
    return [KeyValue(key="service.name", value=value) for value in values]


def _logs() -> ExportLogsServiceRequest:
    message = ExportLogsServiceRequest()
    group = message.resource_logs.add()
    group.resource.attributes.extend(_attributes())
    scope = group.scope_logs.add()
    scope.scope.name = "scope"
    record = scope.log_records.add(
        time_unix_nano=(1 << 64) - 1, trace_id=b"\1" * 16, severity_number=9, attributes=_attributes()
    )
    record.body.string_value = "body"
    scope.log_records.add()
    return message


def _traces() -> ExportTraceServiceRequest:
    message = ExportTraceServiceRequest()
    spans = message.resource_spans.add().scope_spans.add().spans
    span = spans.add(name="span", start_time_unix_nano=1, end_time_unix_nano=2, attributes=_attributes())
    span.status.message = "status"
    span.events.add(name="event", attributes=_attributes())
    span.links.add(span_id=b"\1" * 8, attributes=_attributes())
    spans.add()
    return message


def _metrics() -> ExportMetricsServiceRequest:
    message = ExportMetricsServiceRequest()
    metrics = message.resource_metrics.add().scope_metrics.add().metrics
    metrics.add(name="summary").summary.data_points.add().quantile_values.add(quantile=0.5, value=1)
    exponential = metrics.add(name="exponential").exponential_histogram.data_points.add(sum=0)
    exponential.positive.bucket_counts.append(1)
    histogram = metrics.add(name="histogram").histogram.data_points.add(bucket_counts=[1, 2], explicit_bounds=[0.5])
    histogram.exemplars.add(as_int=1, filtered_attributes=_attributes())
    metrics.add(name="sum", unit="1").sum.data_points.add(as_int=1, attributes=_attributes())
    metrics.add(name="gauge").gauge.data_points.add(as_double=1)
    return message
