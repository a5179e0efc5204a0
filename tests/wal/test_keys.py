"""Names in the log, and positions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icegate.errors import WalError
from icegate.wal.keys import Boundary, Position, SegmentKey, Shard, parse

numbers = st.integers(0, 9_999)
offsets = st.integers(0, 10**20 - 1)
topics = st.sampled_from(["logs", "traces", "metrics"])
positions = st.dictionaries(st.integers(0, 20), st.integers(-1, 2**63 - 1)).map(Position)


def test_names_are_as_documented() -> None:
    shard = Shard("logs", 7)
    assert shard.segment(42).path == "wal/logs/0007/00000000000000000042.parquet"
    assert Boundary(shard, 42).path == "wal/logs/0007/00000000000000000042.boundary"
    assert shard.registration == "wal/logs/shards/0007"
    assert str(shard.segment(42)) == "logs/7@42"


@given(topics, numbers, offsets)
def test_a_name_means_what_it_was_made_of(topic: str, number: int, offset: int) -> None:
    key = SegmentKey(Shard(topic, number), offset)
    marker = Boundary(Shard(topic, number), offset)
    assert parse(key.path) == key
    assert parse(marker.path) == marker


def test_a_shard_past_the_fourth_digit_is_not_invisible() -> None:
    key = SegmentKey(Shard("logs", 10_000), 3)
    assert parse(key.path) == key


@pytest.mark.parametrize(
    "path",
    [
        "wal/logs/0007/.tmp-00000000000000000042.parquet",
        "wal/logs/0007/42.parquet",
        "wal/logs/0007/00000000000000000042.parquet.tmp",
        "wal/logs/0007/00000000000000000042.parquet\n",
        "wal/logs/0007/0000000000000000004x.parquet",
        "wal/logs/007/00000000000000000042.parquet",
        "wal/logs/00007/00000000000000000042.parquet",
        "wal/logs/0007/" + "\u0660" * 20 + ".parquet",
        "x/wal/logs/0007/00000000000000000042.parquet",
        "wal/logs/shards/0007",
        "catalog-id",
        "",
    ],
)
def test_other_names_mean_nothing(path: str) -> None:
    assert parse(path) is None


@given(offsets, offsets)
def test_names_sort_as_their_offsets_do(one: int, other: int) -> None:
    shard = Shard("logs", 0)
    assert (shard.segment(one).path < shard.segment(other).path) == (one < other)
    assert (Boundary(shard, one).path < Boundary(shard, other).path) == (one < other)


@given(st.integers(0, 10**18))
def test_before_lies_between_the_keys_below_and_the_keys_at_an_offset(offset: int) -> None:
    shard = Shard("logs", 0)
    assert shard.before(offset) < Boundary(shard, offset).path
    assert shard.before(offset) < shard.segment(offset).path
    assert shard.segment(offset).path < shard.before(offset + 1)
    assert Boundary(shard, offset).path < shard.before(offset + 1)


def test_a_shard_that_is_not_in_a_position_stands_before_the_first_offset() -> None:
    position = Position({2: 5})
    assert (position[2], position[0]) == (5, -1)
    assert 2 in position
    assert 0 not in position
    assert dict(position) == {2: 5}
    assert len(position) == 1


@given(positions)
def test_a_position_survives_its_text(position: Position) -> None:
    assert Position.from_json(position.to_json()) == position
    assert str(position) == position.to_json()


def test_the_text_of_a_position_is_canonical() -> None:
    assert Position({10: 3, 2: 1}).to_json() == '{"2":1,"10":3}'
    assert Position().to_json() == "{}"


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "3", '"x"', '{"a":1}', '{"-1":1}', '{"0":"1"}', '{"0":1.5}', '{"0":null}', '{"0":true}',
     '{"0":Infinity}', '{"0":{}}', "{"],
)  # fmt: skip
def test_a_text_that_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(WalError, match="not a WAL position"):
        Position.from_json(text)


@given(positions, st.integers(0, 20), st.integers(-1, 100))
def test_advancing_moves_one_shard_and_never_back(position: Position, shard: int, offset: int) -> None:
    if offset < position[shard]:
        with pytest.raises(WalError, match="back"):
            position.advanced(shard, offset)
        return
    moved = position.advanced(shard, offset)
    assert moved[shard] == offset
    assert all(moved[other] == position[other] for other in range(21) if other != shard)
    assert moved.covers(position)


@given(positions, positions)
def test_covers_is_at_least_as_far_everywhere(one: Position, other: Position) -> None:
    assert one.covers(other) == all(one[shard] >= other[shard] for shard in range(21))
