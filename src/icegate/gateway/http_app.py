"""OTLP/HTTP: POST /v1/{logs,traces,metrics}, protobuf."""

from __future__ import annotations

import logging
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from anyio import CapacityLimiter, fail_after, to_thread
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from icegate.errors import IceGateError, MalformedRequest, Overloaded, RequestTooLarge
from icegate.gateway.compression import gunzip
from icegate.otlp.status import RETRY_DELAY, status_of
from icegate.tenant import TENANT_HEADER, one_tenant

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from icegate.gateway.export import Exporter

log = logging.getLogger(__name__)

PROTOBUF: Final = "application/x-protobuf"
_PATHS: Final = {"/v1/logs": "logs", "/v1/traces": "traces", "/v1/metrics": "metrics"}
_THREADS: Final = 128  # one waits for each call's segment


def create_app(exporter: Exporter) -> FastAPI:
    """The gateway's HTTP application: the three export paths, ``/healthz`` and ``/readyz``."""
    app = FastAPI(title="IceGate OTLP gateway", docs_url=None, redoc_url=None, openapi_url=None)
    threads, unlimited = CapacityLimiter(_THREADS), CapacityLimiter(math.inf)

    def endpoint(topic: str) -> Callable[[Request], Awaitable[Response]]:
        async def export(request: Request) -> Response:
            try:
                encoding = _encoding(request)
                body = await _read(request, exporter.options.max_message_bytes)
                tenant = one_tenant(request.headers.getlist(TENANT_HEADER))
                async with _turn(threads, exporter.options.ack_timeout):
                    await to_thread.run_sync(_export, exporter, topic, tenant, body, encoding, limiter=unlimited)
            except Exception as error:
                if not isinstance(error, IceGateError | ClientDisconnect):
                    log.exception("export of %s failed", topic)
                return _refusal(error)
            return Response(b"", media_type=PROTOBUF)

        return export

    for path, topic in _PATHS.items():
        app.add_api_route(path, endpoint(topic), methods=["POST"])

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz(response: Response) -> dict[str, str]:
        if exporter.is_ready:
            return {"status": "ready"}
        response.status_code = 503
        return {"status": "shutting down"}

    @app.exception_handler(HTTPException)
    async def not_served(_: Request, error: HTTPException) -> Response:
        """404 and 405 carry a Status as well."""
        return _answer(error.status_code, status_of(MalformedRequest(str(error.detail))).SerializeToString())

    return app


class _UnsupportedMediaType(MalformedRequest):
    http_status = 415


def _encoding(request: Request) -> str:
    media_type = request.headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if media_type != PROTOBUF:
        raise _UnsupportedMediaType(f"content type {media_type!r} is not served; send {PROTOBUF}")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise _UnsupportedMediaType(f"content encoding {encoding!r} is not served; send gzip or none")
    return encoding


async def _read(request: Request, limit: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise RequestTooLarge(f"the body has more than {limit} bytes")
    return bytes(body)


@asynccontextmanager
async def _turn(threads: CapacityLimiter, longest: float) -> AsyncIterator[None]:
    """Wait for a thread, but no longer than a call may take: its client would have gone, and be back with the same."""
    caller = object()
    try:
        with fail_after(longest):
            await threads.acquire_on_behalf_of(caller)
    except TimeoutError as error:
        raise Overloaded("too many calls wait for the store; try again later") from error
    try:
        yield
    finally:
        threads.release_on_behalf_of(caller)


def _export(exporter: Exporter, topic: str, tenant: str | None, body: bytes, encoding: str) -> None:
    if encoding == "gzip":
        body = gunzip(body, exporter.options.max_message_bytes)
    exporter.export(topic, tenant, body)


def _refusal(error: Exception) -> Response:
    code = error.http_status if isinstance(error, IceGateError) else 500
    return _answer(code, status_of(error).SerializeToString())


def _answer(code: int, body: bytes) -> Response:
    headers = {"Retry-After": str(RETRY_DELAY)} if code in (429, 503) else {}
    return Response(body, status_code=code, media_type=PROTOBUF, headers=headers)
