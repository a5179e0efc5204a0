"""Answers of a real HTTP server, and what the store makes of them."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from obstore.store import S3Store

from icegate.errors import ObjectNotFound, StorageError, StoreAmbiguous
from icegate.storage import S3Options
from icegate.storage.remote import RemoteStore, s3_store

if TYPE_CHECKING:
    from collections.abc import Iterator


class Scripted(ThreadingHTTPServer):
    """Answers each PUT as ``answer`` says; counts them, and keeps what landed."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: int | str = 200
        self.first: list[int] = []  # answered before ``answer``
        self.requests: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        self.release = threading.Event()

    @property
    def options(self) -> S3Options:
        return S3Options(f"http://127.0.0.1:{self.server_port}", "us-east-1", "a", "s", path_style=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.requests[self.command] += 1
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        match self.server.first.pop(0) if self.server.first else self.server.answer:
            case "reset":  # the request was read, the answer never comes
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
            case "hang":
                self.server.release.wait(30)
                self.close_connection = True
            case int(code):
                body = b"" if code in (200, 204) else b"<Error><Code>Scripted</Code></Error>"
                with suppress(OSError):
                    self.send_response(code)
                    self.send_header("Content-Length", str(len(body)))
                    self.send_header("ETag", '"x"')
                    self.end_headers()
                    if self.command != "HEAD":
                        self.wfile.write(body)

    do_PUT = do_GET = do_HEAD = do_DELETE = do_POST = _answer  # noqa: N815 - the base class's names


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted() as scripted:
        thread = threading.Thread(target=scripted.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield scripted
        scripted.release.set()
        scripted.shutdown()
        thread.join()


def test_a_create_is_one_conditional_put(server: Scripted) -> None:
    store = s3_store("bucket", "", server.options)
    assert store.put_if_absent("k", b"x" * 12_000_000) == "created"
    assert server.requests == {"PUT": 1}
    assert server.headers[0]["if-none-match"] == "*"
    assert server.headers[0]["content-length"] == "12000000"


def test_a_failed_precondition_is_exists(server: Scripted) -> None:
    server.answer = 412
    assert s3_store("bucket", "", server.options).put_if_absent("k", b"x") == "exists"
    assert server.requests == {"PUT": 1}


@pytest.mark.parametrize("answer", [409, 429, 500, 502, 503, 504, "reset"])
def test_an_unclear_answer_is_ambiguous_and_the_create_is_never_resent(server: Scripted, answer: int | str) -> None:
    store = s3_store("bucket", "", server.options)
    for number, key in enumerate(("first", "on-a-kept-connection"), 1):
        server.answer = 200
        store.put_if_absent("warm", b"")
        server.requests.clear()
        server.answer = answer
        with pytest.raises(StoreAmbiguous, match=key) as caught:
            store.put_if_absent(key, b"x")
        assert server.requests == {"PUT": 1}, f"try {number}"
        assert "\n" not in str(caught.value)


def test_no_answer_in_time_is_ambiguous_and_the_create_is_never_resent(server: Scripted) -> None:
    server.answer = "hang"
    options: dict[str, Any] = {
        "endpoint": server.options.endpoint,
        "region": "us-east-1",
        "access_key_id": "a",
        "secret_access_key": "s",
        "virtual_hosted_style_request": False,
        "client_options": {"timeout": "300ms", "allow_http": True},
        "retry_config": {"max_retries": 0},
    }
    client = S3Store("bucket", **options)
    with pytest.raises(StoreAmbiguous):
        RemoteStore(client, client).put_if_absent("k", b"x")
    assert server.requests == {"PUT": 1}


def test_a_server_that_is_not_there_is_ambiguous() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        options = S3Options(f"http://127.0.0.1:{unused.getsockname()[1]}", "us-east-1", "a", "s", path_style=True)
        with pytest.raises(StoreAmbiguous):
            s3_store("bucket", "", options).put_if_absent("k", b"x")


@pytest.mark.parametrize("answer", [401, 403])
def test_a_refusal_is_definite(server: Scripted, answer: int) -> None:
    server.answer = answer
    with pytest.raises(StorageError, match="refused to create k") as caught:
        s3_store("bucket", "", server.options).put_if_absent("k", b"x")
    assert not isinstance(caught.value, StoreAmbiguous)


def test_failures_of_reads_are_storage_errors_that_name_the_key(server: Scripted) -> None:
    server.answer = 403
    store = s3_store("bucket", "", server.options)
    for call in (
        lambda: store.get("the-key"),
        lambda: store.get("the-key", last=5),
        lambda: store.head("the-key"),
        lambda: list(store.list_after("the-key/")),
        lambda: store.delete("the-key"),
    ):
        with pytest.raises(StorageError, match="the-key") as caught:
            call()
        assert not isinstance(caught.value, ObjectNotFound)
        assert "\n" not in str(caught.value)


def test_a_bucket_that_does_not_exist_does_not_list_as_empty(server: Scripted) -> None:
    server.answer = 404
    with pytest.raises(StorageError):
        list(s3_store("bucket", "", server.options).list_after("wal/"))


def test_reads_are_tried_again_by_the_client(server: Scripted) -> None:
    server.first, server.answer = [503], 404
    with pytest.raises(ObjectNotFound):
        s3_store("bucket", "", server.options).get("k")
    assert server.requests == {"GET": 2}
