"""Everything through S3's protocol: log, staged files, metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compactor.lake import DAY, Lake, event, log, span
from icegate.catalog.open import CatalogOptions
from icegate.errors import SegmentCorrupt
from icegate.storage import Location
from s3_server import running_s3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from icegate_compactor import Compactor


@pytest.fixture
def s3_lake(tmp_path: Path) -> Iterator[tuple[Lake, Callable[[str, bytes], object]]]:
    """A lake in a bucket, and a way to put bytes there behind its back."""
    with running_s3() as s3:
        bucket = s3.new_bucket()
        location = Location.parse(f"s3://{bucket}/some/where", s3.options)
        yield (
            Lake(location, CatalogOptions(f"sqlite:///{tmp_path}/catalog.db")),
            lambda key, data: s3.client.put_object(Bucket=bucket, Key=f"some/where/{key}", Body=data),
        )


def test_rows_reach_the_tables_in_a_bucket(
    s3_lake: tuple[Lake, Callable[[str, bytes], object]], compactor: Callable[..., Compactor]
) -> None:
    lake, put = s3_lake
    for n in range(4):
        lake.append("logs", n % 2, [log("a", f"{n}"), event("b", f"{n}"), log("b", f"late {n}", -n * DAY)])
    lake.append("traces", 0, [span("a", "s")])
    reports = compactor(lake).run_once()

    assert [report.rows for report in reports] == [8, 4, 1, 0]
    lake.check()
    paths = [task.file.file_path for task in lake.table("logs").scan().plan_files()]
    assert all(path.startswith(f"{lake.location.url}/warehouse/") for path in paths)

    lake.append("logs", 0, [log("a", "unreadable")])
    put("wal/logs/0000/00000000000000000002.parquet", b"not a segment")
    with pytest.raises(SegmentCorrupt, match="logs/0@2"):
        compactor(lake).run_once()
    assert lake.position("logs") == {0: 1, 1: 1}
