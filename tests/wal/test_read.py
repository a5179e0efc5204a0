"""Reading after a position: an unbroken run, or a loud error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from icegate.errors import ObjectNotFound, SegmentCorrupt, SegmentMissing, StaleCut
from icegate.storage.local import TEMPORARY, LocalStore
from icegate.wal import Boundary, Listed, Position, Shard, Tail, list_tail, read_segment, shards
from wal.fake import Call, FakeStore
from wal.rows import segment

if TYPE_CHECKING:
    from pathlib import Path

    from icegate.storage import ObjectStore

SHARD = Shard("logs", 0)


def fill(store: ObjectStore, shard: Shard, *offsets: int) -> None:
    store.put_if_absent(shard.registration, b"")
    for offset in offsets:
        store.put_if_absent(shard.segment(offset).path, b"x" * offset)


def mark(store: ObjectStore, shard: Shard, offset: int) -> None:
    store.put_if_absent(Boundary(shard, offset).path, b"")


def listed(tail: Tail) -> list[tuple[int, int]]:
    return [(each.key.shard.number, each.key.offset) for each in tail.segments]


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


def test_a_topic_that_nobody_wrote_to_is_empty(store: FakeStore) -> None:
    tail = list_tail(store, "logs", Position())
    assert tail == Tail("logs", Position(), ())
    assert tail.end == Position()


def test_nothing_after_the_position_is_empty(store: FakeStore) -> None:
    fill(store, SHARD, 0, 1, 2)
    tail = list_tail(store, "logs", Position({0: 2}))
    assert listed(tail) == []
    assert tail.end == Position({0: 2})


def test_an_unbroken_run_is_listed_in_order_with_sizes(store: FakeStore) -> None:
    fill(store, SHARD, *range(12))
    tail = list_tail(store, "logs", Position({0: 8}))
    assert tail.segments == tuple(Listed(SHARD.segment(n), n) for n in (9, 10, 11))
    assert tail.end == Position({0: 11})


def test_a_shard_that_is_not_in_the_position_is_read_from_its_start(store: FakeStore) -> None:
    fill(store, SHARD, 0, 1)
    assert listed(list_tail(store, "logs", Position())) == [(0, 0), (0, 1)]


def test_each_shard_is_read_after_its_own_position(store: FakeStore) -> None:
    fill(store, Shard("logs", 0), 0, 1, 2)
    fill(store, Shard("logs", 3), 0)
    fill(store, Shard("logs", 12), 0, 1)
    fill(store, Shard("traces", 5), 0)
    tail = list_tail(store, "logs", Position({0: 1, 12: 1}))
    assert listed(tail) == [(0, 2), (3, 0)]
    assert tail.end == Position({0: 2, 3: 0, 12: 1})


@pytest.mark.parametrize(("present", "position", "missing"), [([0, 2], -1, 1), ([1], -1, 0), ([0, 1, 5], 1, 2)])
def test_a_hole_is_an_error_that_names_it(store: FakeStore, present: list[int], position: int, missing: int) -> None:
    fill(store, SHARD, *present)
    with pytest.raises(SegmentMissing, match=rf"logs/0: offset {missing} is missing before {present[-1]}") as caught:
        list_tail(store, "logs", Position({0: position}))
    assert caught.value.retryable


def test_a_hole_that_only_one_listing_shows_is_none(store: FakeStore) -> None:
    fill(store, SHARD, 0, 1, 2)

    def miss_one(call: Call) -> None:
        if call == Call("list", SHARD.prefix):
            store.hidden = {SHARD.segment(1).path}
            store.before = lambda _call: None

    store.before = miss_one
    assert listed(list_tail(store, "logs", Position())) == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("present", [[11, 12], [], [4, 5, 11], [7, 9], [10, 11]])
def test_a_marker_above_the_position_is_a_stale_cut_whatever_is_deleted_by_now(
    store: FakeStore, present: list[int]
) -> None:
    fill(store, SHARD, *present)
    mark(store, SHARD, 10)
    with pytest.raises(StaleCut, match="logs/0 was cleaned up to 10, past position 3") as caught:
        list_tail(store, "logs", Position({0: 3}))
    assert caught.value.retryable


@pytest.mark.parametrize("marker", [0, 2, 3])
def test_a_marker_at_or_below_the_position_is_fine(store: FakeStore, marker: int) -> None:
    fill(store, SHARD, 4, 5)
    mark(store, SHARD, marker)
    assert listed(list_tail(store, "logs", Position({0: 3}))) == [(0, 4), (0, 5)]


def test_a_cleaned_shard_is_not_empty_to_who_starts_at_the_beginning(store: FakeStore) -> None:
    fill(store, SHARD)
    mark(store, SHARD, 3)
    with pytest.raises(StaleCut):
        list_tail(store, "logs", Position())


def test_a_marker_in_another_shard_does_not_matter(store: FakeStore) -> None:
    fill(store, SHARD, 0)
    mark(store, Shard("logs", 1), 7)
    assert listed(list_tail(store, "logs", Position())) == [(0, 0)]


def test_what_is_listed_is_made_durable_after_it_was_listed(store: FakeStore) -> None:
    """A name that appears between a sync and a listing would be listed, and could still be lost."""
    fill(store, Shard("logs", 0), 0)
    fill(store, Shard("logs", 1), 0)
    store.calls.clear()
    list_tail(store, "logs", Position(), settle=True)
    for number in (0, 1):
        prefix = Shard("logs", number).prefix
        assert [call.verb for call in store.calls if call.key == prefix] == ["list", "settle"]


def test_a_query_does_not_pay_for_a_sync(store: FakeStore) -> None:
    fill(store, SHARD, 0)
    store.calls.clear()
    list_tail(store, "logs", Position())
    assert "settle" not in {call.verb for call in store.calls}


def test_other_files_are_ignored(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    fill(store, SHARD, 0, 1)
    folder = tmp_path / SHARD.prefix
    for name in (f"{TEMPORARY}abc", "note.txt", f"{2:020d}.parquet.part", f"{TEMPORARY}{2:020d}.parquet"):
        (folder / name).touch()
    registered = tmp_path / "wal/logs/shards"
    for name in (".DS_Store", "x", f"{TEMPORARY}0009"):
        (registered / name).touch()
    assert shards(store, "logs") == [SHARD]
    assert listed(list_tail(store, "logs", Position(), settle=True)) == [(0, 0), (0, 1)]


def test_shards_come_by_number(store: FakeStore) -> None:
    for number in (12, 3, 0):
        fill(store, Shard("logs", number))
    assert shards(store, "logs") == [Shard("logs", 0), Shard("logs", 3), Shard("logs", 12)]
    assert shards(store, "traces") == []


def test_a_segment_is_read_by_its_key(store: FakeStore) -> None:
    encoded = segment(("a", 3))
    key = SHARD.segment(0)
    store.put_if_absent(key.path, encoded.data)
    assert read_segment(store, key).footer == encoded.footer
    with pytest.raises(ObjectNotFound):
        read_segment(store, SHARD.segment(1))
    store.put_if_absent(SHARD.segment(2).path, b"garbage")
    with pytest.raises(SegmentCorrupt, match="logs/0@2"):
        read_segment(store, SHARD.segment(2))
