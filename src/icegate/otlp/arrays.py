"""Arrow arrays by way of their buffers, a whole column at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from icegate.tables.column import LONG, STRING, TIMESTAMP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

LONG_MAX: Final = np.iinfo(np.int64).max
_HEX: Final = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.dtype("<u2"))


def offsets(array: pa.Array) -> NDArray[np.int32]:
    """The n + 1 offsets of a list, map, string or binary array, without a copy."""
    buffer = array.buffers()[1]
    if buffer.size == 0:  # Arrow allows no offsets for no values
        return np.zeros(1, np.int32)
    return np.frombuffer(buffer, np.int32, len(array) + 1, array.offset * 4)


def counts(array: pa.Array) -> NDArray[np.int32]:
    """The length of each list or text."""
    return np.diff(offsets(array))


def content(array: pa.Array) -> NDArray[np.uint8]:
    """The bytes that the offsets of a string or binary array point into."""
    return np.frombuffer(array.buffers()[2], np.uint8)


def numbers(array: pa.Array) -> Ints:
    """A column of unsigned or signed integers without nulls; values above int64 become its maximum."""
    values: NDArray[np.integer] = array.to_numpy(zero_copy_only=True)
    if values.dtype == np.uint64:
        values = np.minimum(values, LONG_MAX)
    return values.astype(np.int64)


def owners(sizes: NDArray[np.integer]) -> Ints:
    """The index of the list that each element of a flattened list column comes from."""
    return np.repeat(np.arange(len(sizes)), sizes)


def longs(values: Ints, valid: Bools | None = None) -> pa.Int64Array:
    """Values as an array, null where not ``valid``."""
    return pa.Array.from_buffers(LONG, len(values), [_validity(valid), pa.py_buffer(values)])


def times(array: pa.Array) -> pa.Int64Array:
    """Nanoseconds since the epoch, null where 0."""
    values = numbers(array)
    return longs(values, values != 0)


def timestamps(micros: Ints) -> pa.TimestampArray:
    """Microseconds since the epoch as timestamps."""
    return pa.Array.from_buffers(TIMESTAMP, len(micros), [None, pa.py_buffer(micros)])


def hex_text(array: pa.BinaryArray) -> pa.StringArray:
    """Lower-case hex of each value, null where it is empty."""
    return _text(offsets(array) * 2, pa.py_buffer(_HEX[content(array)]))


def blank_to_null(array: pa.StringArray) -> pa.StringArray:
    """The same texts, null where empty."""
    return _text(offsets(array), array.buffers()[2])


def pick(array: pa.Array, index: Ints) -> pa.Array:
    """The elements at ``index``, null where that is negative."""
    return array.take(longs(index, index >= 0))


def lists(like: pa.ListArray, values: pa.Array, type_: pa.ListType) -> pa.ListArray:
    """Lists of other values in place of those of ``like``."""
    return pa.ListArray.from_arrays(like.offsets, values, type=type_)


def _text(bounds: NDArray[np.int32], data: pa.Buffer) -> pa.StringArray:
    filled = _validity(np.diff(bounds) > 0)
    return pa.Array.from_buffers(STRING, len(bounds) - 1, [filled, pa.py_buffer(bounds), data])


def _validity(valid: Bools | None) -> pa.Buffer | None:
    if valid is None or valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
