from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from icegate.catalog.open import CatalogOptions
from icegate.errors import ObjectNotFound
from icegate.storage import Location
from icegate.wal import Position
from icegate_query import QueryService
from query.lake import Lake, in_order, log_row, random_logs, rows_of
from s3_server import running_s3

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bucket() -> Iterator[Location]:
    with running_s3() as s3:
        yield Location.parse(f"s3://{s3.new_bucket()}/some/prefix", s3.options)


def test_a_lake_on_s3(bucket: Location, tmp_path: Path) -> None:
    options = CatalogOptions(f"sqlite:///{tmp_path}/catalog.db")
    lake = Lake(bucket, options)
    rng = random.Random(5)
    for _ in range(3):
        lake.append("logs", random_logs(rng, ["one", "two"], 30))
    lake.compact("logs", Position({0: 1}))
    with QueryService(bucket, options) as service:
        service.check()
        for _ in range(2):
            found = rows_of(service.execute("one", "SELECT * FROM logs"))
            assert in_order(found) == in_order(lake.expected("logs", "one"))
        lake.append("logs", [log_row("one", "new")])
        found = rows_of(service.execute("one", "SELECT body FROM logs WHERE body = 'new'"))
        assert found == [{"body": "new"}]

        mine = next(uri for uri in lake.files("logs") if "tenant_id=one/" in uri)
        lake.store.delete(mine.removeprefix(f"{bucket.url}/"))
        with pytest.raises(ObjectNotFound):
            service.execute("one", "SELECT count(*) FROM logs")
    lake.close()
