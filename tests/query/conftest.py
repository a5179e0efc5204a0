from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from icegate.storage import Location
from icegate_query import QueryOptions, QueryService
from query.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    # A name that must be quoted to be part of a URL.
    made = Lake(Location.parse(str(tmp_path / "our data [é]")))
    yield made
    made.close()


@pytest.fixture
def serve(lake: Lake) -> Iterator[Callable[[QueryOptions], QueryService]]:
    """Opens services over the lake with options of the test's own."""
    opened: list[QueryService] = []

    def open_one(options: QueryOptions) -> QueryService:
        opened.append(QueryService(lake.location, None, options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def service(serve: Callable[[QueryOptions], QueryService]) -> QueryService:
    return serve(QueryOptions(target_partitions=2))
