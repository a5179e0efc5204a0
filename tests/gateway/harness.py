"""A gateway on real sockets over a store that a test can hold or break."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpc_status import rpc_status

from icegate.gateway.export import ExportOptions
from icegate.gateway.server import Gateway, GatewayOptions
from icegate.storage.remote import memory_store
from icegate.wal import Position, Segment, list_tail, read_segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    import grpc
    import httpx

    from icegate.storage import ObjectInfo, ObjectStore, PutOutcome

SERVICES = {
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}


class HeldStore:
    """A memory store whose segment creates a test can hold back or fail."""

    def __init__(self) -> None:
        self._inner: ObjectStore = memory_store()
        self.go = threading.Event()
        self.go.set()
        self.arrived = threading.Semaphore(0)
        self.failure: Exception | None = None

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key.endswith(".parquet"):
            self.arrived.release()
            assert self.go.wait(60)
            if self.failure is not None:
                raise self.failure
        return self._inner.put_if_absent(key, data)

    def get(self, key: str, *, last: int | None = None) -> bytes:
        return self._inner.get(key, last=last)

    def head(self, key: str) -> ObjectInfo | None:
        return self._inner.head(key)

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        return self._inner.list_after(prefix, after)

    def delete(self, key: str) -> None:
        self._inner.delete(key)

    def settle(self, prefix: str) -> None:
        self._inner.settle(prefix)

    def segments(self, topic: str) -> list[Segment]:
        return [read_segment(self, each.key) for each in list_tail(self, topic, Position()).segments]


@dataclass(frozen=True)
class Running:
    """A gateway with a client for each transport."""

    gateway: Gateway
    store: HeldStore
    channel: grpc.Channel
    http: httpx.Client

    def send(self, topic: str, payload: bytes) -> Any:
        """A gRPC export under way: a future."""
        export: Any = self.channel.unary_unary(SERVICES[topic])
        return export.future(payload)

    def grpc_export(
        self,
        topic: str,
        payload: bytes,
        *,
        tenant: str | None = "t1",
        compression: grpc.Compression | None = None,
    ) -> bytes:
        metadata = () if tenant is None else (("x-scope-orgid", tenant),)
        export: Any = self.channel.unary_unary(SERVICES[topic])
        answer: bytes = export(payload, metadata=metadata, timeout=30, compression=compression)
        return answer

    def http_export(
        self, topic: str, payload: bytes, *, tenant: str | None = "t1", headers: dict[str, str] | None = None
    ) -> httpx.Response:
        named = {"Content-Type": "application/x-protobuf"} | ({} if tenant is None else {"X-Scope-OrgID": tenant})
        return self.http.post(f"/v1/{topic}", content=payload, headers=named | (headers or {}))


def details(error: Any) -> list[Any]:
    """The packed details of a gRPC refusal's Status."""
    status = rpc_status.from_call(error)
    return [] if status is None else list(status.details)


def options(**export: object) -> GatewayOptions:
    """Options on free ports, with some of the export's own."""
    return GatewayOptions(grpc_port=0, http_port=0, export=ExportOptions(**export))  # type: ignore[arg-type]
