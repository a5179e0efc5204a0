from __future__ import annotations

import csv
import io
import json
import random
import socket
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest
import uvicorn

from icegate.errors import StorageError
from icegate.storage import Location
from icegate.tables import TABLES
from icegate.wal import Position
from icegate_query import QueryOptions, QueryService, create_app
from query.lake import START, Lake, in_order, log_row, random_logs, random_spans, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ARROW = "application/vnd.apache.arrow.stream"


class Served:
    """The service on a real socket."""

    def __init__(self, service: QueryService, default_tenant: str | None) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(create_app(service, default_tenant), log_level="critical", lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()
        address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        # No connection outlives its request: the server resets one whose request it did not read to the end.
        self.client = httpx.Client(base_url=address, timeout=30, limits=httpx.Limits(max_keepalive_connections=0))

    def close(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    made = Lake(Location.parse(str(tmp_path_factory.mktemp("lake"))))
    rng = random.Random(3)
    made.append("logs", random_logs(rng, ["one", "two"], 50))
    made.append("logs", [log_row("one", 'quoted " and,\nsplit', trace_id=""), log_row("two", "17")])
    made.append("traces", random_spans(rng, ["one"], 5))
    made.compact("logs", Position({0: 0}))
    yield made
    made.close()


@pytest.fixture(scope="module")
def service(lake: Lake) -> Iterator[QueryService]:
    with QueryService(lake.location, None, QueryOptions(max_rows=100, timeout_seconds=10)) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(service: QueryService) -> Iterator[httpx.Client]:
    served = Served(service, "one")
    yield served.client
    served.close()


def ask(client: httpx.Client, sql: str, accept: str = "application/json", **headers: str) -> httpx.Response:
    answer = client.post("/v1/sql", json={"sql": sql}, headers={"Accept": accept, **headers})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].split(";")[0] == accept
    return answer


def assert_problem(answer: httpx.Response, status: int, title: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert set(problem) == {"type", "title", "status", "detail"}
    assert (problem["status"], problem["title"]) == (status, title)
    return problem


def as_json(value: Any) -> Any:
    """A value of a row as JSON must show it."""
    return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if hasattr(value, "strftime") else value


def expected(lake: Lake, table: str, tenant: str = "one") -> list[dict[str, Any]]:
    names = TABLES[table].schema.names
    return [{name: as_json(row.get(name)) for name in names} for row in lake.expected(table, tenant)]


@pytest.mark.parametrize("table", ["logs", "spans"])
def test_json(lake: Lake, client: httpx.Client, table: str) -> None:
    body = ask(client, f"SELECT * FROM {table}").json()
    schema = TABLES[table].schema
    assert body["columns"] == [{"name": each.name, "type": str(each.type)} for each in schema]
    found = [dict(zip(schema.names, row, strict=True)) for row in body["rows"]]
    assert in_order(found) == in_order(expected(lake, table))
    assert (body["row_count"], body["truncated"]) == (len(found), False)
    assert body["elapsed_ms"] > 0


def test_json_tells_the_cut(lake: Lake, client: httpx.Client) -> None:
    snapshot_id = lake.catalog.load_table(("icegate", "logs")).metadata.current_snapshot_id
    assert ask(client, "SELECT 1 FROM logs").json()["cut"] == {
        "logs": {"snapshot_id": str(snapshot_id), "position": {"0": 0}, "tail_segments": 1}
    }


@pytest.mark.parametrize("table", ["logs", "spans"])
def test_ndjson(lake: Lake, client: httpx.Client, table: str) -> None:
    lines = ask(client, f"SELECT * FROM {table}", "application/x-ndjson").text.split("\n")
    assert lines.pop() == ""
    assert in_order([json.loads(line) for line in lines]) == in_order(expected(lake, table))


@pytest.mark.parametrize("table", ["logs", "spans"])
def test_csv(lake: Lake, client: httpx.Client, table: str) -> None:
    header, *lines = csv.reader(io.StringIO(ask(client, f"SELECT * FROM {table}", "text/csv").text))
    assert header == TABLES[table].schema.names
    wanted = [
        [
            ""
            if value is None
            else json.dumps(value, separators=(",", ":"))
            if isinstance(value, dict | list)
            else str(value)
            for value in row.values()
        ]
        for row in expected(lake, table)
    ]
    assert sorted(lines) == sorted(wanted)


def test_csv_tells_null_from_empty(client: httpx.Client) -> None:
    assert (
        ask(client, "SELECT '' AS a, NULL::varchar AS b, 'NULL' AS c", "text/csv").text == '"a","b","c"\n"",,"NULL"\n'
    )


@pytest.mark.parametrize("table", ["logs", "spans", "metrics"])
def test_arrow(lake: Lake, client: httpx.Client, table: str) -> None:
    content = ask(client, f"SELECT * FROM {table}", ARROW).content
    assert content.endswith(b"\xff\xff\xff\xff\0\0\0\0")  # the mark of a stream that is complete
    found = pa.ipc.open_stream(content).read_all()
    assert found.schema == TABLES[table].schema
    assert in_order(found.to_pylist(maps_as_pydicts="strict")) == in_order(lake.expected(table, "one"))


@pytest.mark.parametrize("accept", ["application/x-ndjson", "text/csv", ARROW])
def test_streams_have_the_cut_in_a_header(client: httpx.Client, accept: str) -> None:
    cut = ask(client, "SELECT 1 AS n FROM logs", "application/json").json()["cut"]
    assert json.loads(ask(client, "SELECT 1 AS n FROM logs", accept).headers["x-icegate-cut"]) == cut


VALUES = (
    "SELECT 'NaN'::double AS nan, 9223372036854775807 AS big, date '2026-03-01' AS day, 1.50::decimal(9, 2) AS dec,"
    " arrow_cast(decode('00ff', 'hex'), 'Binary') AS bin, timestamp '2026-03-01' AS local,"
    " arrow_cast(0, 'Timestamp(Second, Some(\"Europe/Berlin\"))') AS zoned, true AS yes, [1, NULL] AS list"
)


def test_values_in_json(client: httpx.Client) -> None:
    body = ask(client, VALUES).json()
    wanted = [
        None,
        9223372036854775807,
        "2026-03-01",
        1.5,
        "00ff",
        "2026-03-01T00:00:00.000000",
        "1970-01-01T00:00:00.000000Z",
        True,
        [1, None],
    ]
    assert body["rows"] == [wanted]
    (line,) = ask(client, VALUES, "application/x-ndjson").text.splitlines()
    assert list(json.loads(line).values()) == wanted


def test_values_in_csv(client: httpx.Client) -> None:
    assert ask(client, VALUES, "text/csv").text.splitlines()[1] == (
        'nan,9223372036854775807,"2026-03-01",1.50,"00ff","2026-03-01T00:00:00.000000",'
        '"1970-01-01T00:00:00.000000Z",true,"[1,null]"'
    )


def test_columns_may_share_a_name(client: httpx.Client) -> None:
    sql = "SELECT a.n, b.n FROM (SELECT 1 AS n, 0 AS k) a JOIN (SELECT 2 AS n, 0 AS k) b USING (k)"
    assert ask(client, sql).json()["rows"] == [[1, 2]]
    answer = client.post("/v1/sql", json={"sql": sql}, headers={"Accept": "application/x-ndjson"})
    assert "AS" in assert_problem(answer, 400, "QueryError")["detail"]


def test_json_is_cut_off_and_streams_are_not(client: httpx.Client) -> None:
    sql = "SELECT value AS n FROM generate_series(1, 30000)"
    body = ask(client, sql).json()
    assert (body["row_count"], len(body["rows"]), body["truncated"]) == (100, 100, True)
    for accept in ("application/x-ndjson", "text/csv"):
        assert len(ask(client, sql, accept).text.splitlines()) == 30000 + (accept == "text/csv")
    assert pa.ipc.open_stream(ask(client, sql, ARROW).content).read_all().num_rows == 30000


@pytest.mark.parametrize("accept", ["application/x-ndjson", "text/csv", ARROW])
def test_a_stream_that_fails_does_not_end_well(client: httpx.Client, accept: str) -> None:
    sql = "SELECT 1 / (value - 1000000) AS n FROM generate_series(1, 2000000)"
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("/v1/sql", json={"sql": sql}, headers={"Accept": accept})


def test_a_client_that_goes_away_ends_its_query(
    client: httpx.Client, service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = threading.Event()
    original = service.execute

    def execute(*args: Any) -> Any:
        answer = original(*args)
        close = answer.close

        def closing() -> None:
            close()
            closed.set()

        monkeypatch.setattr(answer, "close", closing)
        return answer

    monkeypatch.setattr(service, "execute", execute)
    sql = "SELECT value FROM generate_series(1, 1000000000000)"
    with client.stream("POST", "/v1/sql", json={"sql": sql}, headers={"Accept": "text/csv"}) as answer:
        next(answer.iter_bytes())
    assert closed.wait(8)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("application/*;q=0.5", "application/json"),
        ("text/html, TEXT/CSV;q=0.9, */*", "text/csv"),
        (f"{ARROW}, application/json", ARROW),
    ],
)
def test_the_form_follows_accept(client: httpx.Client, accept: str | None, content_type: str) -> None:
    request = client.build_request("GET", "/v1/sql", params={"query": "SELECT 1 AS n"})
    del request.headers["accept"]
    if accept is not None:
        request.headers["accept"] = accept
    answer = client.send(request)
    assert answer.status_code == 200
    assert answer.headers["content-type"].split(";")[0] == content_type


def test_a_form_that_there_is_not(client: httpx.Client) -> None:
    answer = client.post("/v1/sql", json={"sql": "SELECT 1"}, headers={"Accept": "text/html"})
    assert "text/csv" in assert_problem(answer, 406, "Not Acceptable")["detail"]


def test_the_ways_to_ask(client: httpx.Client, lake: Lake) -> None:
    sql = "SELECT count(*) AS n FROM logs"
    latest = len(lake.expected("logs", "one"))
    committed = sum(row["wal_offset"] == 0 for row in lake.expected("logs", "one"))
    assert committed < latest
    plain = {"Content-Type": "text/plain; charset=utf-8"}
    for mode, rows in ((None, latest), ("latest", latest), ("committed", committed)):
        params = {} if mode is None else {"read_mode": mode}
        for answer in (
            client.get("/v1/sql", params={"query": sql, **params}),
            client.post("/v1/sql", json={"sql": sql, **params}),
            client.post("/v1/sql", content=sql, params=params, headers=plain),
        ):
            assert answer.json()["rows"] == [[rows]]


@pytest.mark.parametrize(
    ("request_", "status", "title"),
    [
        ({"method": "POST", "content": b"{", "headers": {"Content-Type": "application/json"}}, 400, "MalformedRequest"),
        ({"method": "POST", "json": {"query": "SELECT 1"}}, 400, "MalformedRequest"),
        ({"method": "POST", "json": {"sql": 1}}, 400, "MalformedRequest"),
        ({"method": "POST", "json": {"sql": "SELECT 1", "read_mode": "dirty"}}, 400, "MalformedRequest"),
        ({"method": "POST", "json": {"sql": "SELECT 1", "more": 1}}, 400, "MalformedRequest"),
        ({"method": "POST", "content": b"\xff", "headers": {"Content-Type": "text/plain"}}, 400, "MalformedRequest"),
        ({"method": "POST", "content": b"x" * 70_000}, 413, "RequestTooLarge"),
        ({"method": "POST", "content": b"x" * 9_000}, 413, "RequestTooLarge"),
        ({"method": "POST", "data": {"sql": "SELECT 1"}}, 415, "Unsupported Media Type"),
        ({"method": "GET"}, 400, "MalformedRequest"),
        ({"method": "GET", "params": {"query": "SELECT 1", "read_mode": "dirty"}}, 400, "MalformedRequest"),
        ({"method": "GET", "params": {"query": "SELEC 1"}}, 400, "QueryError"),
        ({"method": "GET", "params": {"query": "DROP TABLE logs"}}, 403, "QueryRefused"),
        (
            {"method": "GET", "params": {"query": "SELECT 1"}, "headers": {"X-Scope-OrgID": "../two"}},
            400,
            "InvalidTenant",
        ),
        ({"method": "DELETE"}, 405, "Method Not Allowed"),
    ],
)
def test_problems(client: httpx.Client, request_: dict[str, Any], status: int, title: str) -> None:
    assert_problem(client.request(url="/v1/sql", **request_), status, title)


def test_an_unknown_path(client: httpx.Client) -> None:
    assert_problem(client.get("/docs"), 404, "Not Found")


def test_tenants(client: httpx.Client, service: QueryService, lake: Lake) -> None:
    sql = "SELECT count(*) AS n FROM logs"
    assert ask(client, sql).json()["rows"] == [[len(lake.expected("logs", "one"))]]
    assert ask(client, sql, **{"X-Scope-OrgID": "two"}).json()["rows"] == [[len(lake.expected("logs", "two"))]]
    strict = Served(service, None)
    try:
        assert_problem(strict.client.post("/v1/sql", json={"sql": sql}), 400, "InvalidTenant")
        assert ask(strict.client, sql, **{"X-Scope-OrgID": "two"}).json()["row_count"] == 1
    finally:
        strict.close()


def test_an_error_shows_nothing_of_other_tenants(client: httpx.Client, lake: Lake) -> None:
    sql = "SELECT CAST(body AS int) AS n FROM logs WHERE body NOT LIKE 'message%'"
    assert ask(client, sql, **{"X-Scope-OrgID": "two"}).json()["rows"] == [[17]]
    assert len(lake.expected("logs", "two")) > 1
    detail = assert_problem(client.post("/v1/sql", json={"sql": sql}), 400, "QueryError")["detail"]
    assert "quoted" in detail


def test_what_may_pass_says_so(lake: Lake) -> None:
    with QueryService(lake.location, None, QueryOptions(max_tail_bytes=0, timeout_seconds=0.2)) as small:
        served = Served(small, "one")
        try:
            answer = served.client.post("/v1/sql", json={"sql": "SELECT * FROM logs"})
            assert_problem(answer, 503, "Overloaded")
            assert answer.headers["retry-after"] == "1"
            endless = "SELECT count(*) FROM generate_series(1, 1000000000000)"
            answer = served.client.post("/v1/sql", json={"sql": endless})
            assert_problem(answer, 504, "QueryTimeout")
            assert "retry-after" not in answer.headers
        finally:
            served.close()


def test_an_unforeseen_failure_shows_nothing(
    client: httpx.Client, service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(*_: Any) -> Any:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(service, "execute", execute)
    answer = client.post("/v1/sql", json={"sql": "SELECT 1"})
    assert "secret" not in assert_problem(answer, 500, "Internal Server Error")["detail"]


def test_health(client: httpx.Client, service: QueryService, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}

    def fail(*_: Any) -> Any:
        raise ConnectionError("no route to 10.0.0.1")

    with monkeypatch.context() as patched:
        patched.setattr(service._catalog, "load_namespace_properties", fail)
        assert "10.0.0.1" not in assert_problem(client.get("/readyz"), 503, "CatalogUnavailable")["detail"]
        assert client.get("/healthz").status_code == 200


def test_two_tenants_in_one_request_are_refused(client: httpx.Client) -> None:
    headers = [("X-Scope-OrgID", "one"), ("X-Scope-OrgID", "two")]
    assert_problem(client.post("/v1/sql", content="SELECT 1", headers=headers), 400, "InvalidTenant")


def test_a_store_that_fails_keeps_its_words_to_itself(
    client: httpx.Client, service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise StorageError("cannot list wal/logs/ in /srv/data: no route to 10.0.0.1")

    monkeypatch.setattr(service._store, "list_after", fail)
    answer = client.post("/v1/sql", json={"sql": "SELECT count(*) FROM logs"})
    assert_problem(answer, 503, "StorageError")
    assert "retry-after" in answer.headers
    assert not any(each in answer.text for each in ("/srv", "10.0.0.1", "wal/"))


def test_ready_needs_the_store(tmp_path: Any) -> None:
    lake = Lake(Location.parse(str(tmp_path / "lake")))
    with QueryService(lake.location) as service:
        served = Served(service, "one")
        try:
            lake.store.delete("catalog-id")
            assert_problem(served.client.get("/readyz"), 503, "ObjectNotFound")
        finally:
            served.close()
            lake.close()


def test_service_and_http_agree(client: httpx.Client, service: QueryService) -> None:
    sql = f"SELECT body FROM logs WHERE timestamp >= '{START}' ORDER BY body"
    assert [row["body"] for row in rows_of(service.execute("one", sql))] == [
        row[0] for row in ask(client, sql).json()["rows"]
    ]
