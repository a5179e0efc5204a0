"""What one client does must not keep others from being served, nor from being told so in time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gateway.harness import HeldStore, Running, options
from gateway.payloads import logs
from icegate.errors import ConfigError
from icegate.gateway import http_app
from icegate.gateway.server import Gateway, GatewayOptions
from icegate.serving import HttpServer

if TYPE_CHECKING:
    from collections.abc import Callable


def test_health_is_answered_while_exports_hold_every_thread(start: Callable[..., Running]) -> None:
    running = start(options(ack_timeout=20))
    running.store.go.clear()
    payload = logs("x")
    calls = [running.send("logs", payload) for _ in range(150)]
    while running.gateway._admission._in_flight < 128 * len(payload):
        assert running.http.get("/healthz").status_code == 200
    stub: Any = health_pb2_grpc.HealthStub(running.channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    running.store.go.set()
    assert [call.result(timeout=30) for call in calls] == [b""] * 150


def test_a_call_that_waits_for_a_thread_is_answered_in_time(
    start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_app, "_THREADS", 1)
    running = start(options(ack_timeout=0.5))
    running.store.go.clear()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: running.http_export("logs", logs("x")), range(8)))
    assert [answer.status_code for answer in answers] == [503] * 8
    assert all("retry-after" in answer.headers for answer in answers)
    assert any(b"too many calls wait" in answer.content for answer in answers)  # and not one after another
    running.store.go.set()
    assert running.http_export("logs", logs("y")).status_code == 200


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_two_tenants_in_one_request_are_refused(start: Callable[..., Running], transport: str) -> None:
    running = start()
    if transport == "grpc":
        export: Any = running.channel.unary_unary("/opentelemetry.proto.collector.logs.v1.LogsService/Export")
        with pytest.raises(grpc.RpcError) as refused:
            export(logs("x"), metadata=(("x-scope-orgid", "a"), ("x-scope-orgid", "b")), timeout=30)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    else:
        headers = [("Content-Type", "application/x-protobuf"), ("X-Scope-OrgID", "a"), ("X-Scope-OrgID", "b")]
        assert running.http.post("/v1/logs", content=logs("x"), headers=headers).status_code == 400
    assert running.store.segments("logs") == []


def test_a_gateway_that_does_not_start_leaves_nothing_running(start: Callable[..., Running]) -> None:
    taken = start().gateway
    free = HttpServer(http_app.create_app(None), "127.0.0.1", 0, setting="")  # type: ignore[arg-type]
    free.stop()
    with pytest.raises(ConfigError, match="http_port"):
        Gateway(HeldStore(), GatewayOptions(grpc_port=free.port, http_port=taken.http_port))
    again = Gateway(HeldStore(), GatewayOptions(grpc_port=free.port, http_port=0))
    again.stop()


def test_an_ipv6_address_serves_both_transports() -> None:
    gateway = Gateway(HeldStore(), GatewayOptions(host="::1", grpc_port=0, http_port=0))
    try:
        assert httpx.get(f"http://[::1]:{gateway.http_port}/readyz").status_code == 200
        with grpc.insecure_channel(f"[::1]:{gateway.grpc_port}") as channel:
            grpc.channel_ready_future(channel).result(timeout=10)
    finally:
        gateway.stop()
