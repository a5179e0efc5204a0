"""One OTLP export call, the same for both transports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from icegate.errors import AppendUnknown, RequestTooLarge
from icegate.otlp import Request
from icegate.tenant import resolve_tenant

if TYPE_CHECKING:
    from icegate.clock import Clock
    from icegate.gateway.admission import Admission
    from icegate.gateway.ingest import Ingest


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What an export call may be.

    ``default_tenant``: of calls that name none; None refuses them. ``ack_timeout``: seconds after which a call is
    answered, durable or not; clients give up at 5 s by default. ``max_message_bytes``: cap on a decompressed payload.
    """

    default_tenant: str | None = "default"
    ack_timeout: float = 4.5
    max_message_bytes: int = 64 * 1024 * 1024


class Exporter:
    """Takes export calls off the transports."""

    def __init__(self, ingest: Ingest, admission: Admission, clock: Clock, options: ExportOptions) -> None:
        self._ingest = ingest
        self._admission = admission
        self._clock = clock
        self.options = options

    @property
    def is_ready(self) -> bool:
        """Whether calls are admitted."""
        return self._admission.is_open

    def export(self, topic: str, tenant: str | None, payload: bytes) -> None:
        """Return once the payload's records are durable.

        Raises:
            RequestError: the call can never succeed.
            IceGateError: with ``retryable`` set, the client should send it again.
        """
        if len(payload) > self.options.max_message_bytes:
            raise RequestTooLarge(
                f"the message has {len(payload)} bytes, the limit is {self.options.max_message_bytes}"
            )
        request = Request(resolve_tenant(tenant, self.options.default_tenant), payload, self._clock.now())
        size = len(payload)
        self._admission.acquire(size)
        receipt = self._ingest.submit(topic, request, released=lambda: self._admission.release(size))
        try:
            receipt.result(timeout=self.options.ack_timeout)
        except TimeoutError as error:
            receipt.cancel()  # in vain if its append is under way: that may succeed yet
            raise AppendUnknown(f"not durable within {self.options.ack_timeout:g} s; send the request again") from error
