from __future__ import annotations

import random
from typing import TYPE_CHECKING

import boto3
import pytest
from moto.server import ThreadedMotoServer

from icegate.catalog.open import CatalogOptions
from icegate.errors import ObjectNotFound
from icegate.storage import Location, S3Options
from icegate.wal import Position
from icegate_query import QueryService
from query.lake import Lake, in_order, log_row, random_logs, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def bucket() -> Iterator[Location]:
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    options = S3Options(
        endpoint=f"http://{host}:{port}",
        region="us-east-1",
        access_key_id="test",
        secret_access_key="test",  # noqa: S106 - moto takes any
        path_style=True,
    )
    client = boto3.client(
        "s3",
        endpoint_url=options.endpoint,
        region_name=options.region,
        aws_access_key_id=options.access_key_id,
        aws_secret_access_key=options.secret_access_key,
    )
    client.create_bucket(Bucket="lake")
    client.close()
    yield Location.parse("s3://lake/some/prefix", options)
    server.stop()


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
