"""Everything in one process: gateway, query service and compaction loop."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from icegate import wiring
from icegate.gateway.server import Gateway
from icegate.serving import HttpServer

if TYPE_CHECKING:
    from icegate.config import Settings
    from icegate_compactor import Compactor, Observer


class Embedded:
    """A running IceGate; ``grpc_port``, ``http_port`` and ``sql_port`` are the bound ones.

    The compactor is there but does nothing until told: ``compact_every`` starts its loop.
    """

    def __init__(self, settings: Settings, *, observer: Observer | None = None) -> None:
        from icegate_compactor import Compactor
        from icegate_query import QueryService, create_app

        location, catalog = wiring.location(settings), wiring.catalog_options(settings)
        self._stop = threading.Event()
        self._loop: threading.Thread | None = None
        with ExitStack() as stack:
            self.compactor: Compactor = Compactor(
                location, catalog, wiring.spark_options(settings), wiring.compact_options(settings), observer
            )
            stack.callback(self.compactor.close)
            stack.callback(self._join)  # a run under way may finish its commit
            service = QueryService(location, catalog, wiring.query_options(settings))
            stack.callback(service.close)
            sql = HttpServer(
                create_app(service, wiring.default_tenant(settings)),
                settings.host,
                settings.sql_port,
                setting="sql_port",
            )
            stack.callback(sql.stop)
            gateway = Gateway(location.open_store(), wiring.gateway_options(settings))
            stack.callback(gateway.stop)
            stack.callback(self._stop.set)
            self._close = stack.pop_all()
        self.grpc_port, self.http_port, self.sql_port = gateway.grpc_port, gateway.http_port, sql.port

    def compact_every(self, seconds: float) -> None:
        """Compact in the background until closed."""
        self._loop = threading.Thread(target=self.compactor.run_every, args=(seconds, self._stop), name="compact")
        self._loop.start()

    def close(self) -> None:
        """Stop: flush and acknowledge, finish the queries and the compaction under way, close."""
        self._close.close()

    def _join(self) -> None:
        if self._loop is not None:
            self._loop.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
