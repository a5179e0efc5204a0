"""The demo: real OpenTelemetry SDK exporters in, SQL out, every count checked."""

from __future__ import annotations

import logging
import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.metrics import Observation
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricsData, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

from icegate import client, config, terminal
from icegate.tables import TABLES
from icegate.tenant import TENANT_HEADER
from icegate.up import Embedded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console

TENANTS: Final = ("acme", "globex")
_ORDERS: Final = 250  # of each tenant over each transport

_SAMPLES: Final = (
    (
        "Slowest operations (spans)",
        """SELECT service_name, name, count(*) AS calls, round(max(duration_nano) / 1e6, 2) AS slowest_ms
           FROM spans GROUP BY service_name, name ORDER BY slowest_ms DESC LIMIT 3""",
    ),
    (
        "Failed orders, each with its trace (logs joined to spans)",
        """SELECT l.attributes['order.id'] AS order_id, s.status_message, l.trace_id
           FROM logs l JOIN spans s ON l.trace_id = s.trace_id AND l.span_id = s.span_id
           WHERE l.severity_number >= 17 ORDER BY l.timestamp LIMIT 3""",
    ),
    (
        "What each kind of metric holds (metrics)",
        """SELECT metric_name, metric_type, count(*) AS points, sum(count) AS measurements
           FROM metrics GROUP BY metric_name, metric_type ORDER BY metric_name""",
    ),
)


@dataclass(slots=True)
class _Tally:
    """Records that the gateway acknowledged, by (tenant, table)."""

    acknowledged: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: int = 0


def run(out: Console) -> int:
    """Run it; the exit code is 0 if every count is what it must be."""
    started = time.monotonic()
    # The SDK's metric reader tries once more after its exporter is shut down, and says so.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="icegate-demo-") as folder:
        settings = config.load(data=folder, host="127.0.0.1", grpc_port=0, http_port=0, sql_port=0)
        with Embedded(settings) as running:
            out.print("[bold]IceGate demo[/bold]")
            out.print(
                f"gateway on :{running.grpc_port} (gRPC) and :{running.http_port} (HTTP), SQL on :{running.sql_port}"
            )
            out.print(f"sending {len(TENANTS) * 2 * _ORDERS} orders' telemetry with the OpenTelemetry SDK ...")
            tally = _Tally()
            for seed, tenant in enumerate(TENANTS):
                for transport in ("grpc", "http"):
                    _send(running, tenant, transport, tally, random.Random(seed))  # noqa: S311 - made-up telemetry

            url = f"http://127.0.0.1:{running.sql_port}"
            right_after = _counts(url)
            segments = _segments(url)
            out.print("compacting with Spark ...")
            reports = running.compactor.run_once()
            latest, committed = _counts(url), _counts(url, committed=True)

            _show_counts(out, tally, right_after, latest, committed)
            out.print(
                terminal.grid(
                    ("table", "WAL segments", "rows in Iceberg", "files", "snapshot"),
                    [(r.table, segments[r.table], r.rows, r.files, r.snapshot_id) for r in reports],
                    title="One commit moves a table's rows and its WAL position",
                )
            )
            for title, text in _SAMPLES:
                answer = client.sql(url, text, tenant=TENANTS[0])
                out.print(terminal.result(answer, out.width, title=f"{title}, tenant {TENANTS[0]}"))
            exact = tally.refused == 0 and right_after == latest == committed == tally.acknowledged
    out.print(
        f"[bold]{'every count is exact' if exact else 'COUNTS DIFFER'}[/bold], {time.monotonic() - started:.0f} s"
    )
    out.print(
        "\nNext: [bold]make run[/bold] keeps it running on the standard ports. Point an OTLP exporter at 127.0.0.1:4317"
        " and ask"
        '\n[bold].venv/bin/icegate sql "SELECT count(*) FROM logs"[/bold]. README.md goes on from there.',
        soft_wrap=True,
    )
    return 0 if exact else 1


def _show_counts(out: Console, tally: _Tally, *seen: Counter[tuple[str, str]]) -> None:
    rows = [
        (tenant, table, tally.acknowledged[tenant, table], *(counts[tenant, table] for counts in seen))
        for tenant in TENANTS
        for table in TABLES
    ]
    columns = ("tenant", "table", "acknowledged", "in SQL at once", "compacted", "in Iceberg")
    out.print("\nRecords acknowledged, seen by SQL right after, seen after compaction, and of these in Iceberg:")
    out.print(terminal.grid(columns, rows))


def _counts(url: str, *, committed: bool = False) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for tenant in TENANTS:
        for table in TABLES:
            text = f"SELECT count(*) AS n FROM {table}"
            answer = client.sql(url, text, tenant=tenant, read_mode="committed" if committed else "latest")
            counts[tenant, table] = answer.column("n")[0].as_py()
    return counts


def _segments(url: str) -> dict[str, int]:
    """Segments that hold rows of a table: over all tenants, asked of each."""
    found: dict[str, int] = {}
    for table in TABLES:
        text = f"SELECT DISTINCT wal_shard, wal_offset FROM {table}"
        found[table] = len(
            {tuple(row.values()) for tenant in TENANTS for row in client.sql(url, text, tenant=tenant).to_pylist()}
        )
    return found


def _send(running: Embedded, tenant: str, transport: str, tally: _Tally, dice: random.Random) -> None:
    """A shop's telemetry through one transport; everything is flushed on return."""
    resource = Resource.create(
        {"service.name": "shop", "service.version": "1.4.2", "host.name": f"{tenant}-{transport}"}
    )
    spans, logs, metrics = _exporters(running, tenant, transport)
    _count(spans, tally, tenant, lambda batch: {"spans": len(batch)})
    _count(logs, tally, tenant, _log_rows)
    _count(metrics, tally, tenant, lambda data: {"metrics": _points(data)})

    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(spans))
    loggers = LoggerProvider(resource=resource)
    loggers.add_log_record_processor(BatchLogRecordProcessor(logs))
    meters = MeterProvider(
        resource=resource,
        metric_readers=[PeriodicExportingMetricReader(metrics, export_interval_millis=600_000)],
        views=[View(instrument_name="payment.amount", aggregation=ExponentialBucketHistogramAggregation())],
    )
    _shop(tracers, loggers, meters, dice)
    for provider in (tracers, loggers, meters):
        provider.shutdown()  # flushes


def _exporters(running: Embedded, tenant: str, transport: str) -> tuple[Any, Any, Any]:
    if transport == "grpc":
        address = f"127.0.0.1:{running.grpc_port}"
        headers = ((TENANT_HEADER.lower(), tenant),)
        return (
            GrpcSpans(endpoint=address, insecure=True, headers=headers),
            GrpcLogs(endpoint=address, insecure=True, headers=headers),
            GrpcMetrics(endpoint=address, insecure=True, headers=headers),
        )
    url = f"http://127.0.0.1:{running.http_port}/v1"
    named = {TENANT_HEADER: tenant}
    return (
        HttpSpans(endpoint=f"{url}/traces", headers=named),
        HttpLogs(endpoint=f"{url}/logs", headers=named),
        HttpMetrics(endpoint=f"{url}/metrics", headers=named),
    )


def _count(exporter: Any, tally: _Tally, tenant: str, rows: Callable[[Any], dict[str, int]]) -> None:
    """Count what the exporter was told is stored."""
    export = exporter.export

    def counted(batch: Any, *args: Any, **more: Any) -> Any:
        answer = export(batch, *args, **more)
        if answer.name == "SUCCESS":
            for table, number in rows(batch).items():
                tally.acknowledged[tenant, table] += number
        else:
            tally.refused += 1
        return answer

    exporter.export = counted


def _log_rows(batch: Sequence[Any]) -> dict[str, int]:
    events = sum(1 for each in batch if each.log_record.event_name)
    return {"events": events, "logs": len(batch) - events}


def _points(data: MetricsData) -> int:
    return sum(
        len(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    )


def _shop(tracers: TracerProvider, loggers: LoggerProvider, meters: MeterProvider, dice: random.Random) -> None:
    tracer, logger, meter = (
        tracers.get_tracer("shop.orders"),
        loggers.get_logger("shop.orders"),
        meters.get_meter("shop"),
    )
    orders = meter.create_counter("orders", unit="{order}", description="Orders taken")
    latency = meter.create_histogram("order.duration", unit="ms", description="Time to take an order")
    amount = meter.create_histogram("payment.amount", unit="EUR", description="Amount of a payment")
    stock = dice.randint(500, 1000)

    def in_stock(_: object) -> Iterable[Observation]:
        return (Observation(stock, {"warehouse": "north"}),)

    meter.create_observable_gauge("stock", callbacks=[in_stock], unit="{item}", description="Items in stock")
    for number in range(_ORDERS):
        failed = dice.random() < 0.02  # noqa: PLR2004 - two in a hundred
        euros = round(dice.lognormvariate(3, 1), 2)
        order: dict[str, str | int | bool] = {
            "order.id": f"o-{number:05d}",
            "order.items": dice.randint(1, 9),
            "customer.vip": dice.random() < 0.1,  # noqa: PLR2004 - one in ten
        }
        with tracer.start_as_current_span("POST /orders", kind=SpanKind.SERVER, attributes=order) as server:
            logger.emit(
                severity_number=SeverityNumber.INFO, severity_text="INFO", body="order received", attributes=order
            )
            with tracer.start_as_current_span(
                "charge card", kind=SpanKind.CLIENT, attributes={"amount": euros}
            ) as charge:
                charge.add_event("gateway answered", {"http.status_code": 402 if failed else 200})
            if failed:
                server.set_status(Status(StatusCode.ERROR, "card declined"))
                logger.emit(
                    severity_number=SeverityNumber.ERROR,
                    severity_text="ERROR",
                    body={"message": "payment failed", "amount": euros, "reason": "declined"},
                    attributes=order,
                )
            else:
                logger.emit(event_name="order.placed", body=f"order of {euros} EUR placed", attributes=order)
        orders.add(1, {"outcome": "failed" if failed else "placed"})
        latency.record(dice.expovariate(1 / 40), {"outcome": "failed" if failed else "placed"})
        amount.record(euros)
        stock -= 1
