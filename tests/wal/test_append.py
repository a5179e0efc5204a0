"""Append: every line of the outcome table, the fence, and many writers."""

from __future__ import annotations

import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TYPE_CHECKING

import pytest

from icegate.clock import SystemClock
from icegate.errors import AppendUnknown, StorageError
from icegate.storage.local import LocalStore
from icegate.storage.remote import memory_store
from icegate.wal import Appender, Boundary, Position, SegmentKey, Shard, decode, list_tail, shards
from icegate.wal.keys import parse
from wal.fake import Call, FakeClock, FakeStore, Put, failing, seeded
from wal.rows import cheap, segment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from icegate.storage import ObjectStore, PutOutcome
    from icegate.wal import Encoded

SHARD = Shard("logs", 0)
TIMEOUT = 5.0


def new(attempt: str | None = None) -> Encoded:
    return cheap(attempt or str(uuid.uuid4()))


class Log:
    """A fake store and one writer over it."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.clock = FakeClock()
        self.writer = self.another()

    def another(self) -> Appender:
        return Appender(self.store, SHARD, clock=self.clock, random=seeded())

    def append(self, encoded: Encoded | None = None) -> int:
        return self.writer.append(encoded or new(), timeout=TIMEOUT).offset

    def attempts(self) -> dict[int, str]:
        """What is stored: offset -> attempt id."""
        return {
            key.offset: decode(data, path).footer.attempt
            for path, data in self.store.objects.items()
            if isinstance(key := parse(path), SegmentKey)
        }

    def put(self, offset: int, encoded: Encoded | None = None) -> None:
        """Somebody else's append."""
        self.store.objects[SHARD.segment(offset).path] = (encoded or new()).data

    def clean(self, offset: int) -> None:
        """Marker first, then deletes."""
        self.store.objects[Boundary(SHARD, offset).path] = b""
        for n in range(offset + 1):
            self.store.objects.pop(SHARD.segment(n).path, None)

    def tried(self) -> list[int]:
        return [int(path[-28:-8]) for path in self.store.puts()]


@pytest.fixture
def log() -> Log:
    return Log()


def test_offsets_are_dense_from_zero(log: Log) -> None:
    appended = [new() for _ in range(4)]
    assert [log.append(each) for each in appended] == [0, 1, 2, 3]
    assert log.attempts() == {n: each.attempt for n, each in enumerate(appended)}
    assert log.tried() == [0, 1, 2, 3]


def test_the_key_that_comes_back_names_the_segment(log: Log) -> None:
    encoded = new()
    key = log.writer.append(encoded, timeout=TIMEOUT)
    assert key == SegmentKey(SHARD, 0)
    assert log.store.objects[key.path] == encoded.data


def test_the_shard_is_registered_before_its_first_segment(log: Log) -> None:
    log.append()
    puts = [call.key for call in log.store.calls if call.verb == "put"]
    assert puts == [SHARD.registration, SHARD.segment(0).path]
    assert shards(log.store, "logs") == [SHARD]


def test_a_shard_that_cannot_be_registered_gets_no_segment(log: Log) -> None:
    log.store.before = failing(10_000, "put", only="shards/0000")
    with pytest.raises(AppendUnknown):
        log.append()
    assert log.tried() == []


def test_an_append_that_goes_well_costs_one_create_and_one_listing(log: Log) -> None:
    log.append()
    log.store.calls.clear()
    log.append()
    assert [call.verb for call in log.store.calls] == ["put", "list"]


def test_exists_and_ours_is_acknowledged_once_where_it_landed(log: Log) -> None:
    log.store.script = [Put.resent]
    encoded = new()
    assert log.append(encoded) == 0
    assert log.attempts() == {0: encoded.attempt}
    assert log.tried() == [0]
    assert log.append() == 1


def test_exists_and_anothers_moves_on(log: Log) -> None:
    log.append()
    theirs = new()
    log.put(1, theirs)
    ours = new()
    assert log.append(ours) == 2
    assert log.attempts()[1] == theirs.attempt
    assert log.attempts()[2] == ours.attempt


def test_exists_and_far_behind_is_one_lost_create_and_not_one_for_each(log: Log) -> None:
    log.append()
    for n in range(1, 50):
        log.put(n)
    log.store.calls.clear()
    assert log.append() == 50
    assert log.tried() == [1, 50]


@pytest.mark.parametrize("data", [b"", b"garbage", b"PAR1\x00\x00\x00\x00PAR1", b"x" * 1000 + b"PAR1"])
def test_exists_and_garbage_does_not_block_the_shard(log: Log, data: bytes) -> None:
    log.append()
    log.store.objects[SHARD.segment(1).path] = data
    assert log.append() == 2


def test_exists_and_of_a_newer_format_does_not_block_the_shard(log: Log) -> None:
    log.append()
    log.put(1)
    path = SHARD.segment(1).path
    log.store.objects[path] = log.store.objects[path].replace(b'{"format":1,', b'{"format":9,')
    assert log.append() == 2


def test_exists_but_now_absent_lists_again_and_appends_above_the_marker(log: Log) -> None:
    log.append()
    for n in range(1, 6):
        log.put(n)

    def cleaned_before_we_look(put: Put) -> PutOutcome:
        assert put.key == SHARD.segment(1).path
        log.clean(5)
        return "exists"

    log.store.script = [cleaned_before_we_look]
    encoded = new()
    assert log.append(encoded) == 6
    assert log.attempts() == {6: encoded.attempt}


def test_unknown_and_landed_is_acknowledged_and_not_appended_twice(log: Log) -> None:
    log.store.script = [Put.lost_after]
    encoded = new()
    assert log.append(encoded) == 0
    assert log.attempts() == {0: encoded.attempt}
    assert log.tried() == [0]


def test_unknown_and_landed_is_not_acknowledged_before_its_name_is_durable(log: Log) -> None:
    log.store.script = [Put.lost_after]
    log.store.before = failing(1, "settle")
    encoded = new()
    assert log.append(encoded) == 0
    assert log.tried() == [0, 0]  # asked again, and "exists" is only said of a durable name
    assert log.attempts() == {0: encoded.attempt}


def test_an_unknown_outcome_keeps_the_stores_words_to_itself(log: Log) -> None:
    log.append()
    log.store.before = failing(1000, "put", only=".parquet")
    with pytest.raises(AppendUnknown) as caught:
        log.append()
    assert "put failed" not in str(caught.value)
    assert "put failed" in str(caught.value.__cause__)


def test_unknown_and_absent_tries_the_same_offset_again_after_a_pause(log: Log) -> None:
    log.store.script = [Put.lost_before, Put.lost_before]
    before = log.clock.time
    assert log.append() == 0
    assert log.tried() == [0, 0, 0]
    assert 0 < log.clock.time - before < 1


def test_unknown_and_anothers_moves_on(log: Log) -> None:
    theirs, ours = new(), new()

    def another_was_first(put: Put) -> PutOutcome:
        log.put(0, theirs)
        return put.lost_after()

    log.store.script = [another_was_first]
    assert log.append(ours) == 1
    assert log.attempts() == {0: theirs.attempt, 1: ours.attempt}


def test_unknown_and_late_is_recognised_when_the_same_offset_is_tried_again(log: Log) -> None:
    encoded = new()

    def lands_meanwhile(put: Put) -> PutOutcome:
        log.store.let_zombies_go()
        return put.created()

    log.store.script = [Put.delayed, lands_meanwhile]
    assert log.append(encoded) == 0
    assert log.attempts() == {0: encoded.attempt}
    assert log.tried() == [0, 0]


@pytest.mark.parametrize("fault", [Put.lost_before, Put.delayed])
def test_unknown_until_the_deadline_fails_and_the_next_append_starts_at_the_same_offset(
    log: Log, fault: Callable[[Put], PutOutcome]
) -> None:
    log.append()
    log.store.script = [fault] * 1000
    start = log.clock.time
    with pytest.raises(AppendUnknown, match="logs/0 had no clear outcome") as caught:
        log.append()
    assert caught.value.retryable
    assert TIMEOUT <= log.clock.time - start < TIMEOUT + 0.1
    assert set(log.tried()[1:]) == {1}
    assert len(log.tried()) < 20, "with growing pauses"
    log.store.script = []
    log.store.calls.clear()
    assert log.append() == 1
    assert log.tried() == [1]


def test_a_zombie_that_lands_after_its_writer_gave_up_is_anothers_to_the_next_append(log: Log) -> None:
    log.store.script = [Put.delayed] * 1000
    given_up, encoded = new(), new()
    with pytest.raises(AppendUnknown):
        log.append(given_up)
    log.store.script = []
    log.store.let_zombies_go()
    assert log.append(encoded) == 1
    assert log.attempts() == {0: given_up.attempt, 1: encoded.attempt}


def test_a_zombie_that_lands_after_the_next_append_changes_nothing(log: Log) -> None:
    log.store.script = [Put.delayed] * 1000
    given_up, encoded = new(), new()
    with pytest.raises(AppendUnknown):
        log.append(given_up)
    log.store.script = []
    assert log.append(encoded) == 0
    log.store.let_zombies_go()
    assert log.attempts() == {0: encoded.attempt}


def test_a_refused_create_is_tried_again_at_the_same_offset(log: Log) -> None:
    log.store.before = failing(2, "put", only=".parquet")
    assert log.append() == 0
    assert log.tried() == [0, 0, 0]


def test_while_the_attempt_id_cannot_be_read_nothing_is_decided(log: Log) -> None:
    log.append()
    theirs = new()
    log.put(1, theirs)
    log.store.before = failing(3, "get")
    ours = new()
    assert log.append(ours) == 2
    assert log.tried() == [0, 1, 1, 1, 1, 2]
    assert log.attempts()[1] == theirs.attempt


def test_our_own_segment_is_recognised_once_it_can_be_read(log: Log) -> None:
    log.store.script = [Put.lost_after]
    log.store.before = failing(2, "get")
    encoded = new()
    assert log.append(encoded) == 0
    assert log.attempts() == {0: encoded.attempt}


def test_a_listing_that_fails_after_the_create_does_not_acknowledge(log: Log) -> None:
    log.append()
    log.store.before = failing(10_000, "list")
    encoded = new()
    with pytest.raises(AppendUnknown):
        log.append(encoded)
    assert log.attempts()[1] == encoded.attempt, "durable all the same: the outcome is unknown, not refused"
    log.store.before = lambda _call: None
    assert log.append() == 2


def test_a_listing_that_fails_for_a_while_acknowledges_where_it_landed(log: Log) -> None:
    log.append()
    log.store.before = failing(3, "list")
    encoded = new()
    assert log.append(encoded) == 1
    assert list(log.attempts().values()).count(encoded.attempt) == 1


def test_the_fence_refuses_an_offset_that_was_deleted_and_appends_at_the_true_head(log: Log) -> None:
    log.append()
    other = log.another()
    for _ in range(5):
        other.append(new(), timeout=TIMEOUT)
    log.clean(5)  # while our writer, which believes that offset 1 is next, slept
    other.append(new(), timeout=TIMEOUT)
    encoded = new()
    assert log.append(encoded) == 7
    assert log.attempts()[7] == encoded.attempt
    assert log.append() == 8
    tail = list_tail(log.store, "logs", Position({0: 5}))
    assert [each.key.offset for each in tail.segments] == [6, 7, 8]


@pytest.mark.parametrize(("marker", "fenced"), [(1, False), (2, True), (3, True)])
def test_the_fence_is_a_marker_at_or_above_the_offset(log: Log, marker: int, fenced: bool) -> None:
    log.append()
    log.append()

    def a_cleaner_is_faster(put: Put) -> PutOutcome:
        outcome = put.created()
        log.store.objects[Boundary(SHARD, marker).path] = b""
        return outcome

    log.store.script = [a_cleaner_is_faster]
    assert log.append() == (marker + 1 if fenced else 2)


def test_the_fence_holds_for_an_append_that_was_found_to_have_landed(log: Log) -> None:
    log.append()

    def lands_behind_a_marker(put: Put) -> PutOutcome:
        log.store.objects[Boundary(SHARD, 4).path] = b""
        return put.lost_after()

    log.store.script = [lands_behind_a_marker]
    assert log.append() == 5


def test_the_fence_holds_for_an_append_that_was_resent(log: Log) -> None:
    log.append()

    def lands_behind_a_marker(put: Put) -> PutOutcome:
        log.store.objects[Boundary(SHARD, 4).path] = b""
        return put.resent()

    log.store.script = [lands_behind_a_marker]
    assert log.append() == 5


def test_a_writer_on_a_cleaned_shard_starts_above_the_marker(log: Log) -> None:
    log.store.objects[Boundary(SHARD, 41).path] = b""
    assert log.append() == 42
    assert log.tried() == [42]


def test_a_fresh_writer_starts_at_the_head(log: Log) -> None:
    log.append()
    log.append()
    log.store.objects[f"{SHARD.prefix}note.txt"] = b"not a key of ours"
    log.store.calls.clear()
    assert log.another().append(new(), timeout=TIMEOUT).offset == 2
    assert log.tried() == [2]


def test_other_shards_and_topics_do_not_matter(log: Log) -> None:
    log.store.objects[Shard("logs", 1).segment(9).path] = new().data
    log.store.objects[Shard("traces", 0).segment(9).path] = new().data
    log.store.objects[Boundary(Shard("logs", 1), 8).path] = b""
    assert log.append() == 0


def test_no_time_is_no_try(log: Log) -> None:
    with pytest.raises(AppendUnknown):
        log.writer.append(new(), timeout=0)
    assert log.store.calls == []


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_many_writers_of_one_shard_lose_and_double_nothing(kind: str, tmp_path: Path) -> None:
    store: ObjectStore = LocalStore(tmp_path) if kind == "local" else memory_store()
    writers, each = 4, 12

    def write(number: int) -> dict[int, str]:
        mine = LocalStore(tmp_path) if kind == "local" else store
        writer = Appender(mine, SHARD, clock=SystemClock(), random=Random(number))
        acknowledged = {}
        for _ in range(each):
            encoded = new()
            acknowledged[writer.append(encoded, timeout=30).offset] = encoded.attempt
        return acknowledged

    with ThreadPoolExecutor(writers) as pool:
        acknowledged = [item for got in pool.map(write, range(writers)) for item in got.items()]
    tail = list_tail(store, "logs", Position(), settle=True)
    assert [listed.key.offset for listed in tail.segments] == list(range(writers * each))
    stored = {s.key.offset: decode(store.get(s.key.path), str(s.key)).footer.attempt for s in tail.segments}
    assert len(acknowledged) == writers * each
    assert dict(acknowledged) == stored


def test_a_real_segment_is_recognised_by_its_attempt(log: Log) -> None:
    log.store.script = [Put.resent]
    encoded = segment(*((f"tenant-{n:05d}", 1) for n in range(2_000)))  # a footer of more than one read
    assert log.append(encoded) == 0
    assert log.attempts() == {0: encoded.attempt}


def attempt_in(data: bytes) -> str:
    [attempt] = re.findall(rb'"attempt":"([^"]{36})"', data)
    return str(attempt.decode())


class World:
    """A few writers over one store with random faults; whatever one of them calls, others may act first."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = FakeStore()
        self.clock = FakeClock()
        self.store.before = self._before
        self.writers = [
            Appender(self.store, SHARD, clock=self.clock, random=Random(seed + n))
            for n in range(self.random.choice([1, 2, 3]))
        ]
        self.idle = list(self.writers)
        self.acknowledged: dict[str, int] = {}
        self.given_up: set[str] = set()
        self.landed: dict[int, list[str]] = {}  # every attempt that an offset ever held, over all time
        self.faults = self.random.choice([0.0, 0.1, 0.4, 0.8])
        self.started = 0

    def run(self) -> None:
        for _ in range(self.random.randrange(3, 9)):
            self._append()
        self.store.before = lambda _call: None
        self.store.let_zombies_go()

    def _append(self) -> None:
        if not self.idle or self.started >= 25:
            return
        self.started += 1
        writer = self.idle.pop(self.random.randrange(len(self.idle)))
        encoded = new(str(uuid.UUID(int=self.random.getrandbits(128))))
        try:
            key = writer.append(encoded, timeout=self.random.choice([0.2, 3.0]))
        except AppendUnknown:
            self.given_up.add(encoded.attempt)
        else:
            assert encoded.attempt not in self.acknowledged
            self.acknowledged[encoded.attempt] = key.offset
            # What was just acknowledged is there for every reader: above the marker.
            assert key.offset > self._marker()
            assert encoded.data == self.store.objects[key.path]
        finally:
            self.idle.append(writer)

    def _before(self, call: Call) -> None:
        chance = self.random.random
        if chance() < 0.2:
            self._append()  # another writer takes its whole turn in the middle of ours
        if chance() < 0.05:
            self.store.let_zombies_go()
        if call.verb == "put" and call.key.endswith(".parquet"):
            offset = int(call.key[-28:-8])
            below = SHARD.segment(offset - 1).path
            assert offset == 0 or below in self.store.objects or self._marker() >= offset - 1, "n before n + 1"
            self.store.script = [self._fate()]
        elif chance() < self.faults / 3:
            raise StorageError("a fault")

    def _fate(self) -> Callable[[Put], PutOutcome]:
        if self.random.random() >= self.faults:
            return Put.created
        return self.random.choice([Put.resent, Put.lost_after, Put.lost_before, Put.delayed])

    def _marker(self) -> int:
        return max((k.offset for path in self.store.objects if isinstance(k := parse(path), Boundary)), default=-1)

    def clean(self) -> None:
        """Readers are done with a prefix: marker first, then deletes.

        Only between appends: deletion waits longer than an append may take.
        """
        present = sorted(k.offset for path in self.store.objects if isinstance(k := parse(path), SegmentKey))
        above = [n for n in present if n > self._marker()]
        if not above:
            return
        bound = self.random.choice(above)
        self.check_dense(above)
        self.store.objects[Boundary(SHARD, bound).path] = b""
        for n in present:
            if n <= bound:
                attempt = attempt_in(self.store.objects.pop(SHARD.segment(n).path))
                if n in above:
                    self.landed.setdefault(n, []).append(attempt)

    def check_dense(self, above: list[int]) -> None:
        assert above == list(range(self._marker() + 1, self._marker() + 1 + len(above)))

    def check(self) -> None:
        marker = self._marker()
        present = {
            key.offset: attempt_in(data)
            for path, data in self.store.objects.items()
            if isinstance(key := parse(path), SegmentKey) and key.offset > marker
        }
        self.check_dense(sorted(present))
        read = {n: attempts[0] for n, attempts in self.landed.items()} | present
        assert all(len(attempts) == 1 for attempts in self.landed.values())
        assert sorted(read) == list(range(len(read))), "every offset was read once, and none is missing"
        assert len(set(read.values())) == len(read), "no attempt at two offsets"
        for attempt, offset in self.acknowledged.items():
            assert read[offset] == attempt
        assert set(read.values()) <= set(self.acknowledged) | self.given_up


@pytest.mark.parametrize("block", range(8))
def test_with_random_faults_what_is_acknowledged_is_read_exactly_once(block: int) -> None:
    appended = unclear = 0
    for seed in range(block * 100, block * 100 + 100):
        world = World(seed)
        try:
            for _ in range(world.random.choice([1, 3])):
                world.run()
                world.store.before = world._before
                if world.random.random() < 0.5:
                    world.clean()
            world.store.before = lambda _call: None
            world.store.let_zombies_go()
            world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        appended += len(world.acknowledged)
        unclear += len(world.given_up)
    assert appended > 500
    assert unclear > 20
