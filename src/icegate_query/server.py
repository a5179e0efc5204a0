"""SQL over HTTP.

``POST /v1/sql`` takes ``{"sql": ..., "read_mode": ...}`` as JSON, or the SQL as plain text; ``GET /v1/sql`` takes
``query`` and ``read_mode`` as parameters. ``Accept`` chooses the form of the answer (icegate_query.answers). JSON is
built in memory and cut off at the row limit (``truncated``). The other forms are streamed, whole: if the query fails
after the first rows, the connection ends without the end of the message, so an answer that ends well is complete.
Errors are ``application/problem+json``.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from icegate.errors import IceGateError, MalformedRequest, RequestTooLarge, StorageError
from icegate.tenant import TENANT_HEADER, one_tenant, resolve_tenant
from icegate_query.answers import JSON, STREAMS, to_json
from icegate_query.cut import ReadMode  # noqa: TC001 - read at run time, to check what was sent

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from icegate_query.answers import Answer
    from icegate_query.service import QueryService

_log = logging.getLogger(__name__)

PROBLEM: Final = "application/problem+json"
CUT_HEADER: Final = "X-IceGate-Cut"
_MAX_BODY: Final = 64 * 1024
_RETRY_AFTER: Final = {"Retry-After": "1"}


class _Sql(msgspec.Struct, forbid_unknown_fields=True):
    """What a client asks."""

    sql: str
    read_mode: ReadMode = "latest"


class _Streamed(StreamingResponse):
    """Cancels the query when the client goes away."""

    def __init__(self, answer: Answer, accepted: str) -> None:
        cut = msgspec.json.encode(answer.describe_cut()).decode()
        super().__init__(STREAMS[accepted](answer), media_type=accepted, headers={CUT_HEADER: cut})
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._answer.close()


def create_app(service: QueryService, default_tenant: str | None) -> FastAPI:
    """The HTTP interface of a query service.

    Args:
        service: answers the queries; closing it is the caller's.
        default_tenant: the tenant of requests that name none; None if they are refused.
    """
    app = FastAPI(title="IceGate SQL", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(IceGateError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_parameters)
    app.add_exception_handler(HTTPException, _refuse_route)

    async def answer(request: Request, asked: _Sql) -> Response:
        tenant = resolve_tenant(one_tenant(request.headers.getlist(TENANT_HEADER)), default_tenant)
        accepted = _accepted(request.headers.get("accept"))
        try:
            return await run_in_threadpool(_answer, service, tenant, asked, accepted)
        except IceGateError:
            raise
        except Exception:  # noqa: BLE001 - a handler for it would answer too, but end the connection
            _log.exception("a query failed")
            return _problem(500, "Internal Server Error", "the query service failed; its log says why")

    @app.post("/v1/sql")
    async def post_sql(request: Request, read_mode: ReadMode = "latest") -> Response:
        return await answer(request, await _asked(request, read_mode))

    @app.get("/v1/sql")
    async def get_sql(request: Request, query: Annotated[str, Query()], read_mode: ReadMode = "latest") -> Response:
        return await answer(request, _Sql(query, read_mode))

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> dict[str, str]:
        await run_in_threadpool(service.check)
        return {"status": "ready"}

    return app


def _answer(service: QueryService, tenant: str, asked: _Sql, accepted: str) -> Response:
    answer = service.execute(tenant, asked.sql, asked.read_mode)
    return Response(to_json(answer), media_type=JSON) if accepted == JSON else _Streamed(answer, accepted)


def _accepted(header: str | None) -> str:
    """The first form in the client's list that there is; weights are not looked at."""
    for each in (header or "*/*").split(","):
        wanted = each.split(";", 1)[0].strip().lower()
        if wanted in ("", "*/*", "application/*"):
            return JSON
        if wanted == JSON or wanted in STREAMS:
            return wanted
    raise HTTPException(HTTPStatus.NOT_ACCEPTABLE, f"answers are sent as {', '.join((JSON, *STREAMS))}")


async def _asked(request: Request, read_mode: ReadMode) -> _Sql:
    content_type = request.headers.get("content-type", "text/plain").split(";", 1)[0].strip().lower()
    if content_type not in (JSON, "text/plain"):
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send the SQL as {JSON} or as text/plain")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY:
            raise RequestTooLarge(f"the request is larger than {_MAX_BODY} bytes")
    try:
        if content_type == JSON:
            return msgspec.json.decode(bytes(body), type=_Sql)
        return _Sql(body.decode(), read_mode)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedRequest(f"the request cannot be read: {error}") from error


def _problem(status: int, title: str, detail: str, headers: dict[str, str] | None = None) -> Response:
    content = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return Response(msgspec.json.encode(content), status, headers, PROBLEM)


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, IceGateError)  # noqa: S101 - what the handler is registered for
    headers = _RETRY_AFTER if error.retryable else None
    detail = str(error)
    if isinstance(error, StorageError):  # its words may name folders, hosts and buckets
        _log.warning("a query failed: %s", error)
        detail = "data cannot be read now; try again"
    return _problem(error.http_status, type(error).__name__, detail, headers)


async def _refuse_parameters(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what the handler is registered for
    detail = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors())
    return _problem(MalformedRequest.http_status, MalformedRequest.__name__, detail)


async def _refuse_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - what the handler is registered for
    headers = dict(error.headers or {})
    return _problem(error.status_code, HTTPStatus(error.status_code).phrase, error.detail, headers)
