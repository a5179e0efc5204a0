"""Gateways that end with their test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import httpx
import pytest

from gateway.harness import HeldStore, Running
from icegate.gateway.server import Gateway, GatewayOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """Start a gateway with some options of its own."""
    running: list[Running] = []

    def build(options: GatewayOptions | None = None) -> Running:
        store = HeldStore()
        gateway = Gateway(store, options or GatewayOptions(grpc_port=0, http_port=0))
        each = Running(
            gateway,
            store,
            grpc.insecure_channel(f"127.0.0.1:{gateway.grpc_port}"),
            httpx.Client(base_url=f"http://127.0.0.1:{gateway.http_port}", timeout=30),
        )
        running.append(each)
        return each

    yield build
    for each in running:
        each.store.go.set()
        each.channel.close()
        each.http.close()
        each.gateway.stop()
