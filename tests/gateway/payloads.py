"""Small OTLP requests."""

from __future__ import annotations

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

#: A length near 2^64: a naive reader of it panics.
OVERLONG = bytes.fromhex("0affffffffffffffffff01021200")


def logs(*bodies: str) -> bytes:
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for body in bodies:
        records.add(time_unix_nano=1_700_000_000_000_000_000).body.string_value = body
    return request.SerializeToString()


def spans(*names: str) -> bytes:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for name in names:
        scope.spans.add(
            name=name, trace_id=b"t" * 16, span_id=b"s" * 8, start_time_unix_nano=5_000, end_time_unix_nano=9_000
        )
    return request.SerializeToString()


def gauges(*names: str) -> bytes:
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    for name in names:
        scope.metrics.add(name=name).gauge.data_points.add(time_unix_nano=7_000, as_int=3)
    return request.SerializeToString()
