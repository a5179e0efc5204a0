"""Arrays that Arrow allows and ptars does not happen to make: slices, and an empty one without offsets."""

from __future__ import annotations

import pyarrow as pa

from icegate.otlp import arrays


def test_slices() -> None:
    ids = pa.array([b"\x01", b"\xab\xcd", b"", b"\xff", b"\x02"], pa.binary())[1:4]
    assert arrays.hex_text(ids).to_pylist() == ["abcd", None, "ff"]
    assert arrays.blank_to_null(pa.array(["a", "bc", "", "d"])[1:]).to_pylist() == ["bc", None, "d"]
    assert arrays.counts(pa.array([[1], [2, 3], []])[1:]).tolist() == [2, 0]


def test_no_offsets() -> None:
    nothing = pa.py_buffer(b"")
    assert len(arrays.hex_text(pa.Array.from_buffers(pa.binary(), 0, [None, nothing, nothing]))) == 0


def test_long_range() -> None:
    large = pa.array([0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1], pa.uint64())
    assert arrays.numbers(large).tolist() == [0, *[(1 << 63) - 1] * 3]
    assert arrays.times(large).to_pylist() == [None, *[(1 << 63) - 1] * 3]


def test_pick() -> None:
    index = arrays.owners(arrays.counts(pa.array([[1, 1], [], [1]])))
    assert index.tolist() == [0, 0, 2]
    assert arrays.pick(pa.array(["a", "b", "c"]), index - 1).to_pylist() == [None, None, "b"]
