"""The stores under test: a folder, memory, and S3 with and without a prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from icegate.storage import Location
from icegate.storage.remote import memory_store
from s3_server import S3Server, running_s3

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from icegate.storage import ObjectStore


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with running_s3() as server:
        yield server


@pytest.fixture(params=["local", "memory", "s3", "s3-prefix"])
def location_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(location_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store."""
    match location_kind:
        case "local":
            return Location.parse(str(tmp_path / "data")).open_store()
        case "memory":
            return memory_store()
        case _:
            server: S3Server = request.getfixturevalue("s3")
            prefix = "/some/prefix/" if location_kind == "s3-prefix" else ""
            return Location.parse(f"s3://{server.new_bucket()}{prefix}", server.options).open_store()
