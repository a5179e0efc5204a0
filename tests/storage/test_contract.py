"""What every object store must do, whatever is behind it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from icegate.errors import ObjectNotFound, StorageError

if TYPE_CHECKING:
    from icegate.storage import ObjectStore


def keys(store: ObjectStore, prefix: str, after: str = "") -> list[str]:
    return [info.key for info in store.list_after(prefix, after)]


def test_a_key_is_created_once_and_keeps_its_first_content(store: ObjectStore) -> None:
    assert store.put_if_absent("a/b/c.x", b"first") == "created"
    assert store.put_if_absent("a/b/c.x", b"second") == "exists"
    assert store.get("a/b/c.x") == b"first"


def test_content_comes_back_byte_for_byte(store: ObjectStore) -> None:
    data = bytes(range(256)) * 20_000
    assert store.put_if_absent("big", data) == "created"
    assert store.get("big") == data
    assert store.get("big", last=1000) == data[-1000:]


@pytest.mark.parametrize("last", [1, 4, 5, 6, 1_000_000])
def test_the_end_of_an_object_is_read_alone(store: ObjectStore, last: int) -> None:
    store.put_if_absent("k", b"01234")
    assert store.get("k", last=last) == b"01234"[-last:]


def test_an_empty_object_exists(store: ObjectStore) -> None:
    assert store.put_if_absent("f/empty", b"") == "created"
    assert store.put_if_absent("f/empty", b"") == "exists"
    assert store.get("f/empty") == b""
    assert keys(store, "f/") == ["f/empty"]


def test_what_is_not_there_is_not_found(store: ObjectStore) -> None:
    store.put_if_absent("folder/key", b"x")
    for missing in ("folder/other", "nowhere/at/all", "folder/key2"):
        with pytest.raises(ObjectNotFound, match=missing):
            store.get(missing)
        with pytest.raises(ObjectNotFound, match=missing):
            store.get(missing, last=10)
        assert store.head(missing) is None


def test_head_and_listing_tell_size_and_time(store: ObjectStore) -> None:
    before = time.time()
    store.put_if_absent("f/k", b"12345")
    after = time.time()
    info = store.head("f/k")
    assert info is not None
    assert (info.key, info.size) == ("f/k", 5)
    assert before - 2 <= info.modified / 1_000_000 <= after + 2  # S3 tells whole seconds
    [listed] = store.list_after("f/")
    assert (listed.key, listed.size) == ("f/k", 5)
    assert abs(listed.modified - info.modified) <= 1_000_000


def test_a_listing_is_in_key_order_and_of_one_folder(store: ObjectStore) -> None:
    inside = ["p/2", "p/10", "p/1", "p/a/z", "p/a!", "p/a.b", "p/Z"]
    for key in [*inside, "p2/1", "o/1", "p"[:1] + "q"]:
        store.put_if_absent(key, b"")
    assert keys(store, "p/") == sorted(inside)


def test_a_listing_starts_strictly_after_a_key(store: ObjectStore) -> None:
    names = [f"w/{n:03d}.parquet" for n in range(5)]
    for name in names:
        store.put_if_absent(name, b"")
    assert keys(store, "w/", names[2]) == names[3:]
    assert keys(store, "w/", names[4]) == []
    assert keys(store, "w/", "w/zzz") == []


def test_a_listing_starts_after_a_string_that_is_no_key(store: ObjectStore) -> None:
    names = [f"w/{n:03d}{end}" for n in range(4) for end in (".boundary", ".parquet")]
    for name in names:
        store.put_if_absent(name, b"")
    assert keys(store, "w/", "w/002") == names[4:]
    assert keys(store, "w/", "w/002.c") == names[5:]
    assert keys(store, "w/", "v") == names
    assert keys(store, "w/", "w/0015") == names[4:]


def test_a_listing_runs_over_several_pages(store: ObjectStore) -> None:
    names = [f"many/{n:05d}" for n in range(1_003)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: store.put_if_absent(name, b""), names))
    assert keys(store, "many/") == names
    assert keys(store, "many/", names[1]) == names[2:]


def test_a_folder_that_does_not_exist_lists_empty(store: ObjectStore) -> None:
    assert keys(store, "no/such/folder/") == []
    assert keys(store, "no/such/folder/", "no/such/folder/5") == []
    store.settle("no/such/folder/")


def test_delete_is_idempotent_and_frees_the_key(store: ObjectStore) -> None:
    store.put_if_absent("d/k", b"1")
    store.put_if_absent("d/l", b"1")
    store.delete("d/k")
    store.delete("d/k")
    store.delete("never/was")
    assert keys(store, "d/") == ["d/l"]
    assert store.put_if_absent("d/k", b"2") == "created"
    assert store.get("d/k") == b"2"


def test_of_racing_creators_exactly_one_wins_each_key(store: ObjectStore) -> None:
    racers, rounds = 6, 15
    barrier = threading.Barrier(racers)

    def race(me: int) -> list[str]:
        won = []
        for n in range(rounds):
            barrier.wait()
            key = f"race/{n}"
            try:
                if store.put_if_absent(key, str(me).encode()) == "created":
                    won.append(key)
            except StorageError:  # a conflict says nothing: what counts is what is there
                if store.get(key) == str(me).encode():
                    won.append(key)
        return won

    with ThreadPoolExecutor(racers) as pool:
        wins = list(pool.map(race, range(racers)))
    assert sorted(key for each in wins for key in each) == sorted(f"race/{n}" for n in range(rounds))
    for me, each in enumerate(wins):
        assert all(store.get(key) == str(me).encode() for key in each)
