"""The columnar decoder and the plain one give the same rows and refuse the same requests."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icegate.otlp import Request, columnar, plain
from otlp.messages import REQUESTS, assert_same, payload

if TYPE_CHECKING:
    from collections.abc import Sequence

topics = pytest.mark.parametrize("topic", list(REQUESTS))
seeds = st.integers(0, 2**32).map(random.Random)


def agree(topic: str, payloads: Sequence[bytes]) -> set[int]:
    requests = [Request(f"tenant-{i % 3}", p, 1_700_000_000_000_000 + i) for i, p in enumerate(payloads)]
    one, other = columnar.decode(topic, requests), plain.decode(topic, requests)
    assert_same(topic, one, other)
    return set(one.failures)


@topics
@given(rng=seeds)
@settings(max_examples=60, deadline=None)
def test_any_requests(topic: str, rng: random.Random) -> None:
    assert not agree(topic, [payload(topic, rng) for _ in range(rng.randrange(6))])


@topics
@given(rng=seeds)
@settings(max_examples=60, deadline=None)
def test_altered_bytes(topic: str, rng: random.Random) -> None:
    message = bytearray(payload(topic, rng)[:2000])
    for _ in range(rng.randrange(1, 4) if message else 0):
        message[rng.randrange(len(message))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    good = payload(topic, rng)
    assert agree(topic, [good, bytes(message), good]) <= {1}


@topics
@given(junk=st.lists(st.binary(max_size=40), max_size=5))
@settings(max_examples=60, deadline=None)
def test_random_bytes(topic: str, junk: list[bytes]) -> None:
    good = payload(topic, random.Random(1))
    failed = agree(topic, [good, *junk, good])
    assert not failed & {0, len(junk) + 1}


@topics
def test_truncation_at_every_byte(topic: str) -> None:
    rng = random.Random(0)
    whole = next(p for p in iter(lambda: payload(topic, rng), None) if 500 < len(p) < 900)
    cut = [whole[:size] for size in range(len(whole))]
    failed = agree(topic, [whole, *cut, whole])
    assert len(cut) * 0.9 < len(failed) < len(cut)
    assert not failed & {0, len(cut) + 1}
