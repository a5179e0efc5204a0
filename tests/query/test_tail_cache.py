from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from icegate.tables import TABLES
from icegate_query.bounds import Bounds
from icegate_query.cut import take_cut
from icegate_query.service import QueryOptions
from icegate_query.tail import TailCache
from query.lake import START, Lake, log_row, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from icegate_query import QueryService
    from icegate_query.cut import TableCut

COUNT = "SELECT count(*) AS n FROM logs"


class Reads:
    """A store that counts how often a segment is read."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self.segments = 0

    def get(self, key: str, *, last: int | None = None) -> bytes:
        self.segments += 1
        return self._lake.store.get(key, last=last)


def logs_of(lake: Lake) -> TableCut:
    (cut,) = take_cut(lake.catalog, lake.store, [TABLES["logs"]], "latest", max_tail_bytes=1 << 30)
    return cut


@pytest.fixture
def reads(lake: Lake) -> Reads:
    return Reads(lake)


@pytest.fixture
def opened(reads: Reads) -> Iterator[Callable[[int], TailCache]]:
    with ThreadPoolExecutor(4) as readers:
        yield lambda max_bytes: TailCache(reads, readers, max_bytes)  # type: ignore[arg-type]


def test_a_segment_is_read_once_for_all_tenants_and_tables(
    lake: Lake, reads: Reads, opened: Callable[[int], TailCache]
) -> None:
    lake.append("logs", [log_row("one", "a"), log_row("two", "b", event_name="e")])
    cache = opened(1 << 20)
    (logs, events) = take_cut(
        lake.catalog, lake.store, [TABLES["logs"], TABLES["events"]], "latest", max_tail_bytes=1 << 30
    )
    for cut, tenant, rows in ((logs, "one", 1), (logs, "two", 0), (events, "two", 1), (events, "three", 0)) * 2:
        assert sum(each.num_rows for each in cache.batches(cut, tenant, Bounds())) == rows
    assert reads.segments == 1


def test_queries_at_once_share_a_read(lake: Lake, reads: Reads, opened: Callable[[int], TailCache]) -> None:
    for body in "abc":
        lake.append("logs", [log_row("one", body)])
    cache, cut = opened(1 << 20), logs_of(lake)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: len(cache.batches(cut, "one", Bounds())), range(32)))
    assert found == [3] * 32
    assert reads.segments == 3


def test_the_least_recently_used_go_first(lake: Lake, reads: Reads, opened: Callable[[int], TailCache]) -> None:
    for body in "abc":
        lake.append("logs", [log_row("one", body)])
    cut = logs_of(lake)
    size = sum(each.nbytes for each in opened(1 << 20).batches(cut, "one", Bounds())) // 3
    cache = opened(2 * size + size // 2)
    first, second, third = cut.tail
    for tail in ((first,), (second,), (first,), (third,)):
        cache.batches(type(cut)(cut.table, cut.iceberg, cut.base, tail), "one", Bounds())
    assert cache.cached_bytes == 2 * size
    before = reads.segments
    cache.batches(type(cut)(cut.table, cut.iceberg, cut.base, (first, third)), "one", Bounds())
    assert reads.segments == before
    cache.batches(type(cut)(cut.table, cut.iceberg, cut.base, (second,)), "one", Bounds())
    assert reads.segments == before + 1


@pytest.mark.parametrize("max_bytes", [0, 3000])
def test_a_tail_larger_than_the_cache_is_answered_whole(
    lake: Lake, serve: Callable[[QueryOptions], QueryService], max_bytes: int
) -> None:
    for number in range(40):
        lake.append("logs", [log_row("one", str(number)), log_row("two", "x")])
    service = serve(QueryOptions(tail_cache_bytes=max_bytes))
    for _ in range(2):
        assert rows_of(service.execute("one", COUNT)) == [{"n": 40}]
        assert service._tail.cached_bytes <= max_bytes


def test_batches_are_small(lake: Lake, opened: Callable[[int], TailCache]) -> None:
    lake.append("logs", [log_row("one", "x")] * 20_000)
    batches = opened(1 << 30).batches(logs_of(lake), "one", Bounds())
    assert sum(each.num_rows for each in batches) == 20_000
    assert max(each.num_rows for each in batches) <= 8192


def test_segments_outside_of_the_bounds_are_left_out(lake: Lake, opened: Callable[[int], TailCache]) -> None:
    for day in range(3):
        lake.append("logs", [log_row("one", str(day), START + timedelta(days=day))])
    cache, cut = opened(1 << 20), logs_of(lake)
    middle = int((START + timedelta(days=1)).timestamp() * 1_000_000)
    for _ in range(2):  # once as they are read, once from the cache
        (batch,) = cache.batches(cut, "one", Bounds(middle, middle))
        assert batch.column("body").to_pylist() == ["1"]
        assert cache.batches(cut, "one", Bounds(middle + 1, middle + 1)) == []


def test_many_queries_at_once(lake: Lake, serve: Callable[[QueryOptions], QueryService]) -> None:
    for number in range(20):
        lake.append("logs", [log_row("one", str(number)), log_row("two", str(number)), log_row("two", "x")])
    service = serve(QueryOptions(tail_cache_bytes=4000))

    def count(tenant: str) -> int:
        return int(rows_of(service.execute(tenant, COUNT))[0]["n"])

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(count, ["one", "two"] * 30)) == [20, 40] * 30
