"""What goes out when, and how much of it at once."""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gateway.harness import HeldStore, Running
from gateway.payloads import logs
from icegate.clock import SystemClock
from icegate.errors import ConfigError
from icegate.gateway import ingest
from icegate.gateway.group_commit import CommitOptions, GroupCommit, Part
from icegate.gateway.receipt import Receipt
from icegate.gateway.server import Gateway, GatewayOptions
from icegate.otlp import Request, decode
from icegate.wal import Appender, Batch, Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _commit(store: HeldStore, options: CommitOptions) -> GroupCommit:
    appender = Appender(store, Shard("logs", 0), clock=SystemClock(), random=Random(0))
    return GroupCommit("logs", appender, writer="w", clock=SystemClock(), options=options)


def _add(commit: GroupCommit, body: str) -> Receipt:
    done = Receipt(lambda: None)
    commit.add(Part(decode("logs", [Request("t1", logs(body), 1)]).table, [Batch("t1", 1)], [done]))
    return done


def _bodies(store: HeldStore) -> list[list[str]]:
    return [each.table.column("body").to_pylist() for each in store.segments("logs")]


def test_a_segment_takes_no_more_than_its_bound() -> None:
    store = HeldStore()
    size = decode("logs", [Request("t1", logs("a"), 1)]).table.nbytes
    commit = _commit(store, CommitOptions(max_bytes=2 * size))
    store.go.clear()
    waiting = [_add(commit, "a")]
    assert store.arrived.acquire(timeout=30)
    waiting += [_add(commit, each) for each in "bcdef"]
    waiting.append(_add(commit, "larger than the bound, and alone" * 100))
    store.go.set()
    for each in waiting:
        each.result(timeout=30)
    commit.close()
    assert [len(each) for each in _bodies(store)] == [1, 2, 2, 1, 1]


def test_lingering_gathers_though_nothing_is_in_flight() -> None:
    store = HeldStore()
    commit = _commit(store, CommitOptions(linger=3600))
    _add(commit, "a")
    assert not store.arrived.acquire(timeout=0.1)
    _add(commit, "b")
    commit.close()
    assert _bodies(store) == [["a", "b"]]


def test_closing_does_not_linger() -> None:
    store = HeldStore()
    commit = _commit(store, CommitOptions(linger=3600))
    done = _add(commit, "a")
    commit.close()
    assert done.done()
    assert _bodies(store) == [["a"]]


def test_no_more_is_decoded_at_once_than_its_bound(
    start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start()
    payload = logs("x")
    decoded: list[int] = []

    def recorded(topic: str, requests: Sequence[Request]) -> Any:
        decoded.append(len(requests))
        return decode(topic, requests)

    monkeypatch.setattr(ingest, "decode", recorded)
    monkeypatch.setattr(ingest, "_MICRO_BATCH_BYTES", 2 * len(payload))
    inner = running.gateway._ingest
    with inner._changed:  # so that the worker finds all of them at once
        calls = [inner.submit("logs", Request("t1", payload, 1), released=lambda: None) for _ in range(5)]
    for call in calls:
        call.result(timeout=30)
    assert decoded == [2, 2, 1]


def test_health_says_at_once_that_the_gateway_is_going_away(start: Callable[..., Running]) -> None:
    running = start()
    running.store.go.clear()
    call = running.send("logs", logs("in flight"))
    assert running.store.arrived.acquire(timeout=30)
    stopping = threading.Thread(target=running.gateway.stop)
    stopping.start()
    stub: Any = health_pb2_grpc.HealthStub(running.channel)
    while stub.Check(health_pb2.HealthCheckRequest(), timeout=5).status == health_pb2.HealthCheckResponse.SERVING:
        assert running.http.get("/readyz").status_code == 200 or stopping.is_alive()
        assert not call.done()
    running.store.go.set()
    assert call.result(timeout=30) == b""
    stopping.join(30)


def test_two_gateways_do_not_share_a_port_by_accident(start: Callable[..., Running]) -> None:
    taken = start().gateway.grpc_port
    with pytest.raises(ConfigError, match="grpc_port"):
        Gateway(HeldStore(), GatewayOptions(grpc_port=taken, http_port=0))
