"""The OpenTelemetry SDK's own exporters, and which records they sent."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Literal

from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

#: (tenant, table) -> the ids that its rows carry in attribute ``id``.
Sent = dict[tuple[str, str], list[str]]


@dataclass(frozen=True)
class Endpoints:
    """Where a gateway listens."""

    grpc_port: int
    http_port: int

    def exporters(self, transport: Literal["grpc", "http"], tenant: str) -> tuple[Any, Any, Any]:
        if transport == "grpc":
            grpc: dict[str, Any] = {
                "endpoint": f"127.0.0.1:{self.grpc_port}",
                "insecure": True,
                "headers": (("x-scope-orgid", tenant),),
            }
            return GrpcSpans(**grpc), GrpcLogs(**grpc), GrpcMetrics(**grpc)
        url = f"http://127.0.0.1:{self.http_port}/v1"
        http: dict[str, Any] = {"headers": {"X-Scope-OrgID": tenant}, "compression": Compression.Gzip}
        return (
            HttpSpans(f"{url}/traces", **http),
            HttpLogs(f"{url}/logs", **http),
            HttpMetrics(f"{url}/metrics", **http),
        )


def send(to: Endpoints, tenant: str, transport: Literal["grpc", "http"], prefix: str, records: int) -> Sent:
    """Send so many records of each signal; all of it is acknowledged on return."""
    spans, logs, metrics = to.exporters(transport, tenant)
    resource = Resource.create({"service.name": f"service-{prefix}"})
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(spans, max_export_batch_size=100))
    loggers = LoggerProvider(resource=resource)
    loggers.add_log_record_processor(BatchLogRecordProcessor(logs, max_export_batch_size=100))
    reader = PeriodicExportingMetricReader(metrics, export_interval_millis=600_000)
    meters = MeterProvider(resource=resource, metric_readers=[reader])
    tracer, logger, meter = tracers.get_tracer("t"), loggers.get_logger("l"), meters.get_meter("m")
    counter, histogram = meter.create_counter("c"), meter.create_histogram("h")

    sent: Sent = defaultdict(list)
    for number in range(records):
        each = f"{prefix}-{transport}-{number}"
        with tracer.start_as_current_span("span", attributes={"id": each}):
            logger.emit(body="log", attributes={"id": each})
        logger.emit(event_name="event", attributes={"id": each})
        if number % 2:
            counter.add(number, {"id": each})
        else:
            histogram.record(number, {"id": each})
        for table in ("spans", "logs", "events", "metrics"):
            sent[tenant, table].append(each)
    for provider in (tracers, loggers, meters):
        provider.shutdown()  # flushes; a flush of its own would export the metrics twice
    return sent


def merged(*parts: Sent) -> Sent:
    """Everything that several calls sent."""
    total: Sent = defaultdict(list)
    for part in parts:
        for key, ids in part.items():
            total[key] += ids
    return total
