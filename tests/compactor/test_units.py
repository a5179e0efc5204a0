"""Units: every row of a table in exactly one of them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icegate.errors import SegmentCorrupt
from icegate.wal import SegmentKey, Shard
from icegate_compactor.footers import Contents, Share
from icegate_compactor.units import Slice, cut


def contents(shard: int, offset: int, size: int, *tenants: tuple[str, int, int]) -> Contents:
    """A segment of (tenant, rows, rows for the table)."""
    shares, first = [], 0
    for tenant, rows, of_table in tenants:
        shares.append(Share(tenant, first, rows, {"logs": of_table}))
        first += rows
    return Contents(SegmentKey(Shard("logs", shard), offset), size, first, tuple(shares))


def key(shard: int, offset: int) -> SegmentKey:
    return SegmentKey(Shard("logs", shard), offset)


_tenants = st.dictionaries(
    st.sampled_from("abcdef"), st.tuples(st.integers(1, 40), st.integers(0, 40)), min_size=1
).map(lambda found: [(name, rows, min(rows, of_table)) for name, (rows, of_table) in sorted(found.items())])
_segments = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5_000), _tenants), max_size=12).map(
    lambda found: [contents(shard, offset, size, *tenants) for offset, (shard, size, tenants) in enumerate(found)]
)


@given(_segments, st.integers(1, 10_000))
def test_every_row_of_the_table_is_in_exactly_one_unit(segments: list[Contents], target: int) -> None:
    units = cut(segments, "logs", target)

    promised = Counter[str]()
    wanted = Counter[tuple[SegmentKey, str]]()
    for segment in segments:
        for share in segment.shares:
            promised[share.tenant] += share.tables["logs"]
            if share.tables["logs"]:
                wanted[segment.key, share.tenant] += 1
    assert sum((Counter(dict(unit.tenants)) for unit in units), Counter()) == +promised

    by_key = {segment.key: segment for segment in segments}
    covered = Counter[tuple[SegmentKey, str]]()
    for unit in units:
        tenants_read = set()
        for each in unit.slices:
            for share in by_key[each.segment].shares:
                inside = each.first_row <= share.first_row < each.first_row + each.rows
                if inside:
                    assert share.first_row + share.rows <= each.first_row + each.rows
                    covered[each.segment, share.tenant] += 1
                    tenants_read.add(share.tenant)
        assert tenants_read == dict(unit.tenants).keys()
    assert covered == wanted


@given(_segments, st.integers(1, 10_000), st.randoms())
def test_units_do_not_depend_on_the_order_of_the_segments(
    segments: list[Contents], target: int, random: object
) -> None:
    shuffled = list(segments)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert cut(shuffled, "logs", target) == cut(segments, "logs", target)


def test_a_large_tenant_is_split_by_runs_of_segments() -> None:
    units = cut([contents(0, n, 100, ("big", 10, 10)) for n in range(6)], "logs", 200)
    assert [[s.segment.offset for s in unit.slices] for unit in units] == [[0, 1], [2, 3], [4, 5]]
    assert [unit.tenants for unit in units] == [(("big", 20),)] * 3


def test_small_tenants_share_a_unit_up_to_the_target() -> None:
    segment = contents(0, 0, 300, ("a", 10, 10), ("b", 10, 10), ("c", 10, 10))
    units = cut([segment], "logs", 200)
    assert [unit.tenants for unit in units] == [(("a", 10), ("b", 10)), (("c", 10),)]
    assert [unit.slices for unit in units] == [(Slice(key(0, 0), 0, 20),), (Slice(key(0, 0), 20, 10),)]


def test_a_segment_larger_than_the_target_is_one_unit() -> None:
    units = cut([contents(0, 0, 10_000, ("a", 5, 5))], "logs", 100)
    assert [unit.rows for unit in units] == [5]


def test_tenants_without_rows_for_the_table_are_not_read() -> None:
    segment = contents(0, 0, 300, ("a", 10, 1), ("b", 10, 0), ("c", 10, 2))
    (unit,) = cut([segment], "logs", 1_000)
    assert unit.slices == (Slice(key(0, 0), 0, 10), Slice(key(0, 0), 20, 10))
    assert unit.tenants == (("a", 1), ("c", 2))


def test_no_rows_make_no_unit() -> None:
    assert cut([contents(0, 0, 300, ("a", 10, 0))], "logs", 100) == ()


def test_a_footer_that_does_not_count_the_table_is_refused() -> None:
    with pytest.raises(SegmentCorrupt, match=r"logs/2@7 .* table spans"):
        cut([contents(2, 7, 300, ("a", 10, 10))], "spans", 100)
