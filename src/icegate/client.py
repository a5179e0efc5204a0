"""Ask a query service, from the command line or a script."""

from __future__ import annotations

import json
from http.client import HTTPException, IncompleteRead
from typing import TYPE_CHECKING, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pyarrow as pa

from icegate.errors import IceGateError, QueryError, StorageError
from icegate.tenant import TENANT_HEADER

if TYPE_CHECKING:
    from typing import Literal

ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"


def sql(
    url: str,
    text: str,
    *,
    tenant: str | None = None,
    read_mode: Literal["latest", "committed"] = "latest",
    timeout: float = 120.0,
) -> pa.Table:
    """Run a query.

    Args:
        url: the service's address, for example ``http://127.0.0.1:4319``.
        text: one SQL statement.
        tenant: whose rows; None leaves it to the service's default.
        read_mode: ``latest`` = all that is acknowledged, ``committed`` = what is in Iceberg.
        timeout: seconds to wait for the answer.

    Raises:
        QueryError: the service refused the query, and the message is its own; or there is no query service.
        StorageError: the service cannot be reached, cannot answer now, or failed on the way.
    """
    address = (url if "://" in url else f"http://{url}").rstrip("/").removesuffix("/v1/sql")
    headers = {"Content-Type": "application/json", "Accept": ARROW_STREAM}
    if tenant is not None:
        headers[TENANT_HEADER] = tenant
    body = json.dumps({"sql": text, "read_mode": read_mode}).encode()
    try:
        request = Request(f"{address}/v1/sql", body, headers)  # noqa: S310 - the user's own address
        with urlopen(request, timeout=timeout) as answer:  # noqa: S310
            return pa.ipc.open_stream(answer.read()).read_all()
    except HTTPError as error:
        raise _refusal(error) from error
    except IncompleteRead as error:
        raise StorageError(f"the query failed before its answer was complete; the log of {url} says why") from error
    except (URLError, TimeoutError, ConnectionError) as error:
        raise StorageError(
            f"no query service answers at {url}: {error}; start one with `icegate up` or `icegate query`"
        ) from error
    except (HTTPException, ValueError, pa.ArrowException) as error:
        raise QueryError(f"{url} cannot be asked, or does not answer as a query service does: {error}") from error


def _refusal(error: HTTPError) -> IceGateError:
    text = error.read().decode(errors="replace")
    try:
        detail = json.loads(text)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = text[:500]
    return QueryError(detail) if error.code < 500 else StorageError(detail)  # noqa: PLR2004 - HTTP's classes
