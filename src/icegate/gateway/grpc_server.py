"""OTLP/gRPC: raw bytes in, an empty response out."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from grpc_status import rpc_status
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from icegate.errors import ConfigError, IceGateError
from icegate.otlp.status import status_of
from icegate.tenant import TENANT_HEADER, one_tenant

if TYPE_CHECKING:
    from collections.abc import Callable

    from icegate.gateway.export import Exporter

log = logging.getLogger(__name__)

_SERVICES: Final = {
    logs_service_pb2.DESCRIPTOR.services_by_name["LogsService"].full_name: "logs",
    trace_service_pb2.DESCRIPTOR.services_by_name["TraceService"].full_name: "traces",
    metrics_service_pb2.DESCRIPTOR.services_by_name["MetricsService"].full_name: "metrics",
}
# A thread waits for each call's segment; more calls than this wait their turn.
_THREADS: Final = 128
# Over the cap, the handler answers by the rules; far over it, gRPC itself refuses to read.
_TRANSPORT_SLACK: Final = 1024 * 1024


class _Health(health.HealthServicer):
    """Answers from a thread of its own: exports that wait for a slow store may take all the others."""

    def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's name
        return super().Check(request, context)


_Health.Check.experimental_thread_pool = ThreadPoolExecutor(1, "grpc-health")  # type: ignore[attr-defined]


class GrpcServer:
    """Serves the three OTLP services and grpc.health.v1 on one port."""

    def __init__(self, exporter: Exporter, host: str, port: int) -> None:
        self._exporter = exporter
        self._server = grpc.server(
            ThreadPoolExecutor(_THREADS, thread_name_prefix="grpc"),
            options=[
                ("grpc.max_receive_message_length", exporter.options.max_message_bytes + _TRANSPORT_SLACK),
                ("grpc.so_reuseport", 0),  # a second gateway on this port must fail, not share it by accident
            ],
        )
        self._health = _Health()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        for service, topic in _SERVICES.items():
            handler: Any = grpc.unary_unary_rpc_method_handler(
                self._handler(topic)
            )  # no (de)serialisers: bytes as they are
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
        names = (*_SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        for service in ("", *_SERVICES):
            self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        address = f"[{host}]" if ":" in host else host
        try:
            self.port: int = self._server.add_insecure_port(f"{address}:{port}")
        except RuntimeError as error:
            raise ConfigError(f"grpc_port: cannot listen on {host}:{port}: {error}") from error
        self._server.start()

    def drain(self) -> None:
        """Tell health checks that this server is going away."""
        self._health.enter_graceful_shutdown()

    def stop(self, grace: float) -> None:
        """Refuse new calls, give those under way ``grace`` seconds."""
        self._server.stop(grace).wait()

    def _handler(self, topic: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def export(payload: bytes, context: grpc.ServicerContext) -> bytes:
            tenants = [str(value) for name, value in context.invocation_metadata() if name == TENANT_HEADER.lower()]
            try:
                self._exporter.export(topic, one_tenant(tenants), payload)
            except Exception as error:
                if not isinstance(error, IceGateError):
                    log.exception("export of %s failed", topic)
                context.abort_with_status(rpc_status.to_status(status_of(error)))
            return b""  # Export*ServiceResponse with partial_success unset

        return export
