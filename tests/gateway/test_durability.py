"""An acknowledgement means durable; a refusal never hides behind success."""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING

import grpc
import pytest

from gateway.harness import HeldStore, Running
from gateway.payloads import logs
from icegate.clock import SystemClock
from icegate.errors import StoreAmbiguous
from icegate.gateway.export import ExportOptions
from icegate.gateway.group_commit import CommitOptions, GroupCommit, Part
from icegate.gateway.receipt import Receipt
from icegate.gateway.server import GatewayOptions
from icegate.otlp import Request, decode
from icegate.wal import Appender, Batch, Shard

if TYPE_CHECKING:
    from collections.abc import Callable


def _bodies(running: Running) -> list[list[str]]:
    return [segment.table.column("body").to_pylist() for segment in running.store.segments("logs")]


def test_no_acknowledgement_before_the_segment_is_durable(start: Callable[..., Running]) -> None:
    running = start()
    running.store.go.clear()
    call = running.send("logs", logs("a"))
    assert running.store.arrived.acquire(timeout=30)  # the create is under way
    assert not call.done()
    assert running.store.segments("logs") == []
    running.store.go.set()
    assert call.result(timeout=30) == b""
    assert _bodies(running) == [["a"]]


def test_what_gathers_during_an_append_goes_out_in_one_segment() -> None:
    store = HeldStore()
    appender = Appender(store, Shard("logs", 0), clock=SystemClock(), random=Random(0))
    commit = GroupCommit("logs", appender, writer="w", clock=SystemClock(), options=CommitOptions())
    store.go.clear()
    waiting = [_add(commit, "first")]
    assert store.arrived.acquire(timeout=30)  # its append is under way
    waiting += [_add(commit, f"b{i}") for i in range(20)]
    store.go.set()
    for each in waiting:
        each.result(timeout=30)
    commit.close()
    bodies = [segment.table.column("body").to_pylist() for segment in store.segments("logs")]
    assert bodies == [["first"], [f"b{i}" for i in range(20)]]


def _add(commit: GroupCommit, body: str) -> Receipt:
    done = Receipt(lambda: None)
    decoded = decode("logs", [Request("t1", logs(body), 1)])
    commit.add(Part(decoded.table, [Batch("t1", 1)], [done]))
    return done


def test_an_append_without_an_outcome_fails_as_retryable_and_later_ones_succeed(start: Callable[..., Running]) -> None:
    running = start(GatewayOptions(grpc_port=0, http_port=0, commit=CommitOptions(append_timeout=0.2)))
    running.store.failure = StoreAmbiguous("connection reset")
    with pytest.raises(grpc.RpcError) as refused:
        running.grpc_export("logs", logs("lost?"))
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert running.http_export("logs", logs("lost too?")).status_code == 503
    running.store.failure = None
    assert running.http_export("logs", logs("kept")).status_code == 200
    assert _bodies(running) == [["kept"]]


def test_beyond_the_limit_in_flight_requests_are_refused_as_retryable_until_there_is_room(
    start: Callable[..., Running],
) -> None:
    payload = logs("x" * 600)
    running = start(GatewayOptions(grpc_port=0, http_port=0, max_inflight_bytes=1000, export=ExportOptions()))
    running.store.go.clear()
    first = running.send("logs", payload)
    assert running.store.arrived.acquire(timeout=30)
    with pytest.raises(grpc.RpcError) as refused:
        running.grpc_export("logs", payload)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert running.http_export("logs", payload).status_code == 503
    running.store.go.set()
    assert first.result(timeout=30) == b""
    assert running.grpc_export("logs", payload) == b""
    assert [len(each) for each in _bodies(running)] == [1, 1]


def test_a_call_answered_by_its_deadline_still_counts_as_in_flight(start: Callable[..., Running]) -> None:
    payload = logs("x" * 600)
    running = start(
        GatewayOptions(grpc_port=0, http_port=0, max_inflight_bytes=1000, export=ExportOptions(ack_timeout=0.05))
    )
    running.store.go.clear()
    assert running.http_export("logs", payload).status_code == 503  # not durable in time
    answer = running.http_export("logs", payload)
    assert (answer.status_code, b"in flight" in answer.content) == (503, True)


def test_stopping_flushes_and_acknowledges_what_was_admitted_and_refuses_the_rest(
    start: Callable[..., Running],
) -> None:
    running = start()
    running.store.go.clear()
    call = running.send("logs", logs("in flight"))
    assert running.store.arrived.acquire(timeout=30)
    stopping = threading.Thread(target=running.gateway.stop)
    stopping.start()
    while running.http.get("/readyz").status_code != 503:
        assert stopping.is_alive()
    answer = running.http_export("logs", logs("late"))
    assert (answer.status_code, b"shutting down" in answer.content) == (503, True)
    assert not call.done()
    running.store.go.set()
    stopping.join(timeout=30)
    assert call.result(timeout=30) == b""
    assert _bodies(running) == [["in flight"]]


def test_a_call_that_was_answered_while_it_waited_is_dropped_and_not_stored_behind_its_clients_back(
    start: Callable[..., Running],
) -> None:
    running = start(
        GatewayOptions(
            grpc_port=0,
            http_port=0,
            max_inflight_bytes=2000,
            export=ExportOptions(ack_timeout=0.3),
            commit=CommitOptions(append_timeout=30),
        )
    )
    running.store.go.clear()
    under_way = running.send("logs", logs("under way"))
    assert running.store.arrived.acquire(timeout=30)
    late = [running.send("logs", logs(f"late {n}" + "x" * 600)) for n in range(2)]
    for call in [under_way, *late]:
        assert call.exception(timeout=30).code() is grpc.StatusCode.UNAVAILABLE
    running.store.go.set()
    while running.http_export("logs", logs("y" * 1500)).status_code != 200:  # room, once what was dropped is gone
        pass
    bodies = [body for each in _bodies(running) for body in each]
    assert bodies[0] == "under way"  # its append could not be called back
    assert not [body for body in bodies if body.startswith("late")]


def test_those_who_still_wait_are_stored_without_those_who_do_not() -> None:
    store = HeldStore()
    appender = Appender(store, Shard("logs", 0), clock=SystemClock(), random=Random(0))
    commit = GroupCommit("logs", appender, writer="w", clock=SystemClock(), options=CommitOptions())
    store.go.clear()
    first = _add(commit, "first")
    assert store.arrived.acquire(timeout=30)
    released: list[str] = []
    decoded = decode("logs", [Request(tenant, logs(tenant, "2"), 1) for tenant in ("a", "b", "c")])
    receipts = [Receipt(lambda each=each: released.append(each)) for each in ("a", "b", "c")]  # type: ignore[misc]
    commit.add(Part(decoded.table, [Batch(each, 2) for each in ("a", "b", "c")], receipts))
    assert receipts[1].cancel()
    assert released == []  # its rows are still in memory
    assert not first.cancel()  # too late
    store.go.set()
    for receipt in (first, receipts[0], receipts[2]):
        receipt.result(timeout=30)
    commit.close()
    assert sorted(released) == ["a", "b", "c"]
    stored = store.segments("logs")[1].table.select(["tenant_id", "body"]).to_pylist()
    assert [tuple(row.values()) for row in stored] == [("a", "a"), ("a", "2"), ("c", "c"), ("c", "2")]
