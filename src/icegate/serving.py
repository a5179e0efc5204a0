"""Serve an ASGI application from a thread of this process."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import uvicorn

from icegate.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI


class HttpServer:
    """An application on a port; ``port`` 0 takes any free one, and ``port`` then tells which."""

    def __init__(self, app: FastAPI, host: str, port: int, *, setting: str) -> None:
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family, backlog=1024)
        except OSError as error:
            raise ConfigError(f"{setting}: cannot listen on {host}:{port}: {error}") from error
        self.port: int = self._socket.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                loop="uvloop",
                http="httptools",
                ws="none",
                lifespan="off",
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=10,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name=f"http-{self.port}", daemon=True
        )
        # The socket listens already: connections made before the loop runs wait in its backlog.
        self._thread.start()

    def stop(self) -> None:
        """Finish the requests under way, then close."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
