"""The gateway: both transports on one ingest pipeline."""

from __future__ import annotations

import logging
import os
import random
import socket
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from icegate.clock import SystemClock
from icegate.gateway.admission import Admission
from icegate.gateway.export import Exporter, ExportOptions
from icegate.gateway.group_commit import CommitOptions, GroupCommit
from icegate.gateway.grpc_server import GrpcServer
from icegate.gateway.http_app import create_app
from icegate.gateway.ingest import Ingest
from icegate.serving import HttpServer
from icegate.tables import TOPICS
from icegate.wal import Appender, Shard

if TYPE_CHECKING:
    from icegate.storage import ObjectStore

log = logging.getLogger(__name__)

#: Seconds that requests under way get at shutdown.
GRACE: Final = 10.0


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """``shard``: the WAL shard this process writes. ``max_inflight_bytes``: cap on payloads not yet durable."""

    host: str = "127.0.0.1"
    grpc_port: int = 4317
    http_port: int = 4318
    shard: int = 0
    max_inflight_bytes: int = 256 * 1024 * 1024
    export: ExportOptions = field(default_factory=ExportOptions)
    commit: CommitOptions = field(default_factory=CommitOptions)


class Gateway:
    """A running gateway; ``grpc_port`` and ``http_port`` are the bound ones."""

    def __init__(self, store: ObjectStore, options: GatewayOptions) -> None:
        clock = SystemClock()
        writer = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._admission = Admission(options.max_inflight_bytes)
        self._ingest = Ingest(
            {
                topic: GroupCommit(
                    topic,
                    Appender(store, Shard(topic, options.shard), clock=clock, random=random.Random()),  # noqa: S311 - jitter
                    writer=writer,
                    clock=clock,
                    options=options.commit,
                )
                for topic in TOPICS
            }
        )
        exporter = Exporter(self._ingest, self._admission, clock, options.export)
        try:
            self._grpc = GrpcServer(exporter, options.host, options.grpc_port)
        except BaseException:
            self._ingest.close()
            raise
        try:
            self._http = HttpServer(create_app(exporter), options.host, options.http_port, setting="http_port")
        except BaseException:
            self._grpc.stop(0)
            self._ingest.close()
            raise
        self.grpc_port = self._grpc.port
        self.http_port = self._http.port

    def stop(self) -> None:
        """Stop admitting, flush, acknowledge, close. What cannot be flushed in time was never acknowledged."""
        self._grpc.drain()
        if not self._admission.close(GRACE):
            log.warning("some requests were still in flight after %g s; they were not acknowledged", GRACE)
        self._grpc.stop(GRACE)
        self._http.stop()
        self._ingest.close()
