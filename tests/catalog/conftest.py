from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from icegate.catalog.open import open_catalog
from icegate.storage import Location
from s3_server import S3Server, running_s3

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with running_s3() as server:
        yield server


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return Location.parse(str(tmp_path / "data"))


@pytest.fixture
def catalog(location: Location) -> Iterator[Catalog]:
    opened = open_catalog(location)
    yield opened
    opened.close()
