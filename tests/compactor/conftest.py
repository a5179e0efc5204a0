"""One Spark for all tests of this folder: starting it takes longer than most of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import spark
from compactor.lake import Lake
from icegate.storage import Location
from icegate_compactor import CompactOptions, Compactor, SparkOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from icegate_compactor import Observer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/compactor/" in item.path.as_posix():
            for mark in spark.MARKS:
                item.add_marker(mark)


@pytest.fixture(scope="session")
def _spark() -> Iterator[None]:
    yield
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Location.parse(str(tmp_path / "data")))


@pytest.fixture
def compactor(_spark: None) -> Callable[..., Compactor]:
    """Make compactors that share one Spark: they are not closed, it is stopped at the end."""

    def make(lake: Lake, observer: Observer | None = None, options: CompactOptions | None = None) -> Compactor:
        return Compactor(lake.location, lake.catalog_options, SparkOptions(), options or CompactOptions(), observer)

    return make
