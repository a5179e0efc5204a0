"""OTLP requests that look like those of a busy web shop, from a fixed seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource

EPOCH = 1_790_000_000_000_000_000
SERVICES = ("checkout", "cart", "payment", "catalogue", "shipping", "frontend")
ROUTES = ("/cart", "/cart/{id}", "/checkout", "/products/{id}", "/health", "/api/v2/search")
WORDS = (
    "order",
    "accepted",
    "for",
    "customer",
    "retrying",
    "payment",
    "after",
    "timeout",
    "cache",
    "miss",
    "while",
)


def attributes(into: RepeatedCompositeFieldContainer[KeyValue], values: dict[str, str | bool | int | float]) -> None:
    """Append ``values`` as key-value messages."""
    for key, value in values.items():
        item = into.add(key=key)
        if isinstance(value, str):
            item.value.string_value = value
        elif isinstance(value, bool):
            item.value.bool_value = value
        elif isinstance(value, int):
            item.value.int_value = value
        else:
            item.value.double_value = value


def origin(rng: random.Random, resource: Resource, scope: InstrumentationScope) -> None:
    """Describe one pod and one instrumentation library."""
    service = rng.choice(SERVICES)
    attributes(
        resource.attributes,
        {
            "service.name": service,
            "service.version": "3.14.2",
            "deployment.environment.name": "production",
            "k8s.pod.name": f"{service}-{rng.getrandbits(40):010x}",
            "k8s.node.name": f"node-{rng.randrange(200)}",
            "telemetry.sdk.language": "python",
        },
    )
    scope.name, scope.version = f"com.example.{service}", "1.27.0"


def http(rng: random.Random) -> dict[str, str | bool | int | float]:
    """Attributes of a request to a web service."""
    return {
        "http.request.method": rng.choice(("GET", "POST", "PUT")),
        "http.route": rng.choice(ROUTES),
        "http.response.status_code": rng.choice((200, 200, 200, 201, 404, 500)),
        "client.address": f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}",
        "user.id": f"{rng.getrandbits(64):016x}",
        "cache.hit": rng.random() < 0.5,
    }


def logs(rng: random.Random, records: int) -> bytes:
    """One export call with this many log records."""
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    scope = group.scope_logs.add()
    origin(rng, group.resource, scope.scope)
    for index in range(records):
        record = scope.log_records.add(
            time_unix_nano=EPOCH + index * 1_000_003,
            observed_time_unix_nano=EPOCH + index * 1_000_003 + 40_000,
            severity_number=9,
            severity_text="INFO",
            trace_id=rng.randbytes(16),
            span_id=rng.randbytes(8),
            flags=1,
        )
        record.body.string_value = " ".join(rng.choices(WORDS, k=rng.randint(8, 24)))
        attributes(record.attributes, http(rng) | {"duration_ms": rng.random() * 100})
    return request.SerializeToString()


def traces(rng: random.Random, records: int) -> bytes:
    """One export call with this many spans, each with two events, some with a link."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    scope = group.scope_spans.add()
    origin(rng, group.resource, scope.scope)
    for index in range(records):
        start = EPOCH + index * 1_000_003
        span = scope.spans.add(
            trace_id=rng.randbytes(16),
            span_id=rng.randbytes(8),
            parent_span_id=rng.randbytes(8),
            name=f"GET {rng.choice(ROUTES)}",
            kind=2,
            start_time_unix_nano=start,
            end_time_unix_nano=start + rng.randrange(10**8),
            flags=257,
        )
        span.status.code = 1
        attributes(span.attributes, http(rng))
        for name in ("request.read", "response.sent"):
            event = span.events.add(name=name, time_unix_nano=start + rng.randrange(10**6))
            attributes(event.attributes, {"bytes": rng.randrange(10**6)})
        if index % 5 == 0:
            link = span.links.add(trace_id=rng.randbytes(16), span_id=rng.randbytes(8))
            attributes(link.attributes, {"messaging.operation.name": "receive"})
    return request.SerializeToString()


def metrics(rng: random.Random, records: int) -> bytes:
    """One export call with this many points, of the five kinds in turn, ten to a metric."""
    request = ExportMetricsServiceRequest()
    group = request.resource_metrics.add()
    scope = group.scope_metrics.add()
    origin(rng, group.resource, scope.scope)
    made = 0
    while made < records:
        kind = ("gauge", "sum", "histogram", "exponential_histogram", "summary")[made // 10 % 5]
        metric = scope.metrics.add(name=f"http.server.{kind}.{made // 50}", unit="ms", description=f"A {kind}")
        data = getattr(metric, kind)
        if kind in {"sum", "histogram", "exponential_histogram"}:
            data.aggregation_temporality = 2
        for _ in range(min(10, records - made)):
            made += 1
            point = data.data_points.add(time_unix_nano=EPOCH + made, start_time_unix_nano=EPOCH)
            attributes(point.attributes, {"http.route": rng.choice(ROUTES), "status": rng.choice((200, 404, 500))})
            match kind:
                case "gauge":
                    point.as_double = rng.random()
                case "sum":
                    point.as_int = rng.randrange(10**6)
                case "histogram":
                    point.count, point.sum, point.min, point.max = 100, rng.random(), 0.5, 99.5
                    point.explicit_bounds.extend((5, 10, 25, 50, 75, 100, 250, 500))
                    point.bucket_counts.extend(rng.randrange(100) for _ in range(9))
                    point.exemplars.add(
                        as_double=rng.random(),
                        time_unix_nano=EPOCH,
                        trace_id=rng.randbytes(16),
                        span_id=rng.randbytes(8),
                    )
                case "exponential_histogram":
                    point.count, point.sum, point.scale = 100, rng.random(), 3
                    point.positive.offset = -4
                    point.positive.bucket_counts.extend(rng.randrange(100) for _ in range(12))
                case _:
                    point.count, point.sum = 100, rng.random()
                    for quantile in (0.5, 0.9, 0.99):
                        point.quantile_values.add(quantile=quantile, value=rng.random())
    return request.SerializeToString()


SIGNALS: dict[str, Callable[[random.Random, int], bytes]] = {
    "logs": logs,
    "traces": traces,
    "metrics": metrics,
}
