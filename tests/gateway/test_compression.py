"""Bodies that inflate."""

from __future__ import annotations

import gzip
import random
import time
from itertools import pairwise

import pytest

from icegate.errors import MalformedRequest, RequestTooLarge
from icegate.gateway.compression import gunzip

TEXT = random.Random(0).randbytes(300_000) + b"a" * 300_000


@pytest.mark.parametrize("cuts", [[], [1], [100_000, 100_000, 299_999]])
def test_members_of_any_size_are_one_body(cuts: list[int]) -> None:
    bounds = [0, *cuts, len(TEXT)]
    body = b"".join(gzip.compress(TEXT[low:high]) for low, high in pairwise(bounds))
    assert gunzip(body, len(TEXT)) == TEXT


def test_one_byte_over_the_limit_is_too_large() -> None:
    with pytest.raises(RequestTooLarge):
        gunzip(gzip.compress(TEXT), len(TEXT) - 1)


@pytest.mark.parametrize("missing", [1, 8, 9, 200_000])
def test_a_body_that_is_cut_off_is_refused(missing: int) -> None:
    with pytest.raises(MalformedRequest, match="cut off"):
        gunzip(gzip.compress(TEXT)[:-missing], len(TEXT))


def test_many_small_members_take_time_in_proportion() -> None:
    small, large = (gzip.compress(b"") * count for count in (10_000, 100_000))
    started = time.process_time()
    gunzip(small, 1)
    between = time.process_time()
    gunzip(large, 1)
    assert time.process_time() - between < 50 * (between - started)
