"""Both transports, end to end to the segment."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gateway.harness import Running, details, options
from gateway.payloads import OVERLONG, gauges, logs, spans

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMN = {"logs": "body", "traces": "name", "metrics": "metric_name"}
PAYLOAD = {"logs": logs, "traces": spans, "metrics": gauges}


def _stored(running: Running, topic: str) -> list[tuple[str, str]]:
    return [
        (row["tenant_id"], row[COLUMN[topic]])
        for segment in running.store.segments(topic)
        for row in segment.table.to_pylist()
    ]


@pytest.mark.parametrize("topic", ["logs", "traces", "metrics"])
@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
def test_grpc_export_is_in_the_log_when_it_is_acknowledged(
    start: Callable[..., Running], topic: str, compression: grpc.Compression | None
) -> None:
    running = start()
    answer = running.grpc_export(topic, PAYLOAD[topic]("a", "b"), tenant="acme", compression=compression)
    assert answer == b""
    assert _stored(running, topic) == [("acme", "a"), ("acme", "b")]


@pytest.mark.parametrize("topic", ["logs", "traces", "metrics"])
@pytest.mark.parametrize("zipped", [False, True])
def test_http_export_is_in_the_log_when_it_is_acknowledged(
    start: Callable[..., Running], topic: str, zipped: bool
) -> None:
    running = start()
    payload = PAYLOAD[topic]("a", "b")
    answer = running.http_export(
        topic,
        gzip.compress(payload) if zipped else payload,
        tenant="acme",
        headers={"Content-Encoding": "gzip"} if zipped else {"Content-Type": "application/x-protobuf; charset=utf-8"},
    )
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert _stored(running, topic) == [("acme", "a"), ("acme", "b")]


def test_an_empty_request_succeeds_and_writes_nothing(start: Callable[..., Running]) -> None:
    running = start()
    assert running.grpc_export("logs", b"") == b""
    assert running.http_export("traces", b"").status_code == 200
    assert running.store.segments("logs") == running.store.segments("traces") == []


def test_a_missing_tenant_is_the_default_and_an_invalid_one_is_refused(start: Callable[..., Running]) -> None:
    running = start(options(default_tenant="shared"))
    running.grpc_export("logs", logs("g"), tenant=None)
    assert running.http_export("logs", logs("h"), tenant=None).status_code == 200
    with pytest.raises(grpc.RpcError) as refused:
        running.grpc_export("logs", logs("bad"), tenant="a/b")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    answer = running.http_export("logs", logs("bad"), tenant="")
    assert answer.status_code == 400
    assert "tenant" in Status.FromString(answer.content).message
    assert sorted(_stored(running, "logs")) == [("shared", "g"), ("shared", "h")]


def test_without_a_default_a_missing_tenant_is_refused(start: Callable[..., Running]) -> None:
    running = start(options(default_tenant=None))
    assert running.http_export("logs", logs("x"), tenant=None).status_code == 400
    assert running.store.segments("logs") == []


@pytest.mark.parametrize("garbage", [OVERLONG, b"\x0a\xff", b"not a protobuf"])
def test_malformed_requests_are_refused_for_good(start: Callable[..., Running], garbage: bytes) -> None:
    running = start()
    with pytest.raises(grpc.RpcError) as refused:
        running.grpc_export("logs", garbage)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert [detail.TypeName() for detail in details(refused.value)] == [BadRequest.DESCRIPTOR.full_name]
    answer = running.http_export("logs", garbage)
    assert answer.status_code == 400
    assert Status.FromString(answer.content).message
    assert "retry-after" not in answer.headers


def test_malformed_requests_leave_those_decoded_with_them_unharmed(start: Callable[..., Running]) -> None:
    running = start()
    running.store.go.clear()  # hold the first append, so that the rest is decoded and gathered together
    calls = [running.send("logs", logs("first"))]
    assert running.store.arrived.acquire(timeout=30)
    calls += [running.send("logs", OVERLONG if i % 3 == 1 else logs(f"b{i}")) for i in range(30)]
    bad = [call for i, call in enumerate(calls[1:]) if i % 3 == 1]
    for call in bad:
        assert call.exception(timeout=30).code() is grpc.StatusCode.INVALID_ARGUMENT
    running.store.go.set()
    good = [call for call in calls if call not in bad]
    assert [call.result(timeout=30) for call in good] == [b""] * len(good)
    expected = ["first", *(f"b{i}" for i in range(30) if i % 3 != 1)]
    assert sorted(body for _, body in _stored(running, "logs")) == sorted(expected)


def test_too_large_is_refused_for_good(start: Callable[..., Running]) -> None:
    running = start(options(max_message_bytes=1000))
    large = logs("x" * 2000)
    with pytest.raises(grpc.RpcError) as refused:
        running.grpc_export("logs", large)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert details(refused.value) == []
    assert running.http_export("logs", large).status_code == 413
    bomb = gzip.compress(bytes(10_000_000))
    answer = running.http_export("logs", bomb[:900], headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 413
    assert Status.FromString(answer.content).message
    assert running.store.segments("logs") == []


@pytest.mark.parametrize("body", [b"plain", gzip.compress(logs("a"))[:-3], gzip.compress(logs("a")) + b"rest"])
def test_a_broken_gzip_body_is_refused(start: Callable[..., Running], body: bytes) -> None:
    running = start()
    assert running.http_export("logs", body, headers={"Content-Encoding": "gzip"}).status_code == 400
    assert running.store.segments("logs") == []


def test_a_gzip_body_of_two_members_is_one_body(start: Callable[..., Running]) -> None:
    running = start()
    payload = logs("a", "b")
    body = gzip.compress(payload[:7]) + gzip.compress(payload[7:])
    assert running.http_export("logs", body, headers={"Content-Encoding": "gzip"}).status_code == 200
    assert _stored(running, "logs") == [("t1", "a"), ("t1", "b")]


@pytest.mark.parametrize(
    ("method", "path", "headers", "code"),
    [
        ("POST", "/v1/profiles", {"Content-Type": "application/x-protobuf"}, 404),
        ("GET", "/v1/logs", {}, 405),
        ("POST", "/v1/logs", {"Content-Type": "text/plain"}, 415),
        ("POST", "/v1/logs", {}, 415),
        ("POST", "/v1/logs", {"Content-Type": "application/x-protobuf", "Content-Encoding": "br"}, 415),
    ],
)
def test_what_is_not_served_is_said_in_a_status(
    start: Callable[..., Running], method: str, path: str, headers: dict[str, str], code: int
) -> None:
    running = start()
    answer = running.http.request(method, path, headers=headers, content=b"" if method == "POST" else None)
    assert answer.status_code == code
    assert Status.FromString(answer.content).message


def test_health_and_readiness_follow_the_life_of_the_gateway(start: Callable[..., Running]) -> None:
    running = start()
    stub: Any = health_pb2_grpc.HealthStub(running.channel)
    for service in ("", "opentelemetry.proto.collector.trace.v1.TraceService"):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert running.http.get("/healthz").status_code == 200
    assert running.http.get("/readyz").status_code == 200


def test_a_retryable_refusal_carries_a_delay(start: Callable[..., Running]) -> None:
    running = start(options(ack_timeout=0.05))
    running.store.go.clear()
    with pytest.raises(grpc.RpcError) as refused:
        running.grpc_export("logs", logs("a"))
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    (detail,) = details(refused.value)
    retry = RetryInfo()
    assert detail.Unpack(retry)
    assert retry.retry_delay.seconds > 0
    answer = running.http_export("logs", logs("b"))
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
