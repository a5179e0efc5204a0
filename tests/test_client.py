"""The client of a query service, against servers of its own."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from icegate import client
from icegate.errors import QueryError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = pa.table({"n": [1, 2]})


def _arrow() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema) as writer:
        writer.write_table(ROWS)
    return bytes(sink.getvalue())


@contextmanager
def _answering(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that says these bytes to whatever it is asked, and hangs up."""
    asked: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(f"{self.path} {self.headers['X-Scope-OrgID']} ".encode() + body)
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _http(status: str, body: bytes, *headers: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", *headers, "", "")).encode() + body


def test_rows_come_back_and_the_tenant_goes_along() -> None:
    with _answering(_http("200 OK", _arrow())) as (url, asked):
        assert client.sql(f"{url}/", "SELECT 1", tenant="acme", read_mode="committed") == ROWS
    assert asked == [b'/v1/sql acme {"sql": "SELECT 1", "read_mode": "committed"}']


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (_http("400 Bad Request", b'{"detail": "no column x"}'), QueryError, "^no column x$"),
        (_http("503 Service Unavailable", b'{"detail": "later"}'), StorageError, "^later$"),
        (_http("500 Internal Server Error", b"a proxy's page"), StorageError, "a proxy's page"),
        (_http("404 Not Found", b'["?"]'), QueryError, r"\?"),
        (_http("200 OK", b"<html>"), QueryError, "does not answer as a query service"),
        (_http("200 OK", _arrow()[:-30], "Content-Length: 5000"), StorageError, "before its answer was complete"),
        (_http("200 OK", b"10\r\nabc", "Transfer-Encoding: chunked"), StorageError, "before its answer was complete"),
        (b"SSH-2.0\r\n", QueryError, "does not answer as a query service"),
        (b"", StorageError, "no query service answers"),
    ],
)
def test_what_is_not_an_answer_is_an_error_of_ours(answer: bytes, error: type[Exception], says: str) -> None:
    with _answering(answer) as (url, _), pytest.raises(error, match=says):
        client.sql(url, "SELECT 1")


@pytest.mark.parametrize("url", ["http://127.0.0.1:x", "http://a b/", "nonsense"])
def test_an_address_that_is_none_is_an_error_of_ours(url: str) -> None:
    with pytest.raises((QueryError, StorageError)):
        client.sql(url, "SELECT 1")


def test_a_tenant_that_is_no_header_is_an_error_of_ours() -> None:
    with _answering(_http("200 OK", _arrow())) as (url, _), pytest.raises(QueryError):
        client.sql(url, "SELECT 1", tenant="a\nb")


def test_a_server_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(StorageError):
        client.sql(f"http://127.0.0.1:{silent.getsockname()[1]}", "SELECT 1", timeout=0.1)
