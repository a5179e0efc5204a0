"""Failures of ours: each request gets an answer, and what comes after is served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.payloads import logs
from icegate.gateway import group_commit, ingest
from icegate.otlp import Request
from icegate.otlp import decode as real_decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.harness import Running


class Panic(BaseException):
    """As Rust's reach Python."""


def _bodies(running: Running) -> list[str]:
    return [body for each in running.store.segments("logs") for body in each.table.column("body").to_pylist()]


@pytest.mark.parametrize(
    ("failure", "code"),
    [(RuntimeError("secret"), 500), (Panic("secret"), 500), (MemoryError(), 503)],
    ids=["error", "panic", "memory"],
)
@pytest.mark.parametrize(("module", "name"), [(ingest, "decode"), (group_commit, "encode")])
def test_an_unforeseen_failure_is_answered_and_the_next_request_served(
    start: Callable[..., Running],
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    failure: BaseException,
    code: int,
) -> None:
    running = start()
    real = getattr(module, name)
    failures = [failure]

    def fail_once(*args: Any, **named: Any) -> Any:
        if failures:
            raise failures.pop()
        return real(*args, **named)

    monkeypatch.setattr(module, name, fail_once)
    answer = running.http_export("logs", logs("lost"))
    assert answer.status_code == code
    assert b"secret" not in answer.content
    assert running.http_export("logs", logs("kept")).status_code == 200
    assert _bodies(running) == ["kept"]


def test_a_request_that_the_decoder_fails_on_harms_none_that_came_with_it(
    start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start()
    running.store.go.clear()
    first = running.send("logs", logs("first"))
    assert running.store.arrived.acquire(timeout=30)

    def decode(topic: str, requests: Any) -> Any:
        if any(b"poison" in each.payload for each in requests):
            raise RuntimeError
        return real_decode(topic, requests)

    monkeypatch.setattr(ingest, "decode", decode)
    with running.gateway._ingest._changed:  # hold the worker, so that it takes all of these at once
        calls = [
            running.gateway._ingest.submit("logs", each, released=lambda: None)
            for each in _requests("a", "poison", "b", "c")
        ]
    running.store.go.set()
    assert first.result(timeout=30) == b""
    failed = [call.exception(timeout=30) for call in calls]
    assert [type(each) for each in failed] == [type(None), RuntimeError, type(None), type(None)]
    assert sorted(_bodies(running)) == ["a", "b", "c", "first"]


def _requests(*bodies: str) -> list[Any]:
    return [Request("t1", logs(body), 1) for body in bodies]
