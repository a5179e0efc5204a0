"""Encoded ``AnyValue`` messages as text, a column at a time.

Nearly all values are a single field whose encoding can be told from its first bytes, so strings, integers,
doubles and booleans are found and decoded with numpy. Whatever does not look exactly like one of those
(arrays, maps, bytes, strings of 16 KiB and more, several fields in one message, unknown fields, malformed
bytes) is left to protobuf's parser, one by one; so what a value means is always as protobuf has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from icegate.otlp import arrays
from icegate.otlp.text import INFINITY, NAN, any_value_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from icegate.otlp.arrays import Bools, Ints

#: Field number and wire type, as the first byte of the encoding.
_STRING: Final = 0x0A
_BOOL: Final = 0x10
_INT: Final = 0x18
_DOUBLE: Final = 0x21
_DOUBLE_SIZE: Final = 9
_MORE: Final = 0x80  # a varint goes on after a byte with this bit
_LONGEST: Final = 10  # bytes of a varint; bits beyond 64 are ignored
_BOOLEANS: Final = pa.array([b"false", b"true"], pa.binary())


def texts(columns: Sequence[pa.ListArray]) -> list[pa.StringArray]:
    """The text of every value, as ``text.any_value_text`` has it, null where unset.

    All columns are decoded in one pass: on small requests most of the time is the fixed cost of a pass.

    Args:
        columns: ``list<binary>``: for each value the occurrences of its field.

    Raises:
        ValueError, DecodeError, MalformedRequest: Some value is malformed or not UTF-8, or nests too deep.
    """
    whole = _decode(pa.concat_arrays([_merged(column) for column in columns]))
    starts = np.cumsum([0, *(len(column) for column in columns)])
    return [whole.slice(start, len(column)) for start, column in zip(starts, columns, strict=False)]


def maps(columns: Sequence[pa.ListArray], *others: pa.ListArray) -> tuple[list[pa.MapArray], list[pa.StringArray]]:
    """Lists of ``KeyValue`` as maps, and other columns of values as texts, in one pass.

    Raises:
        ValueError, DecodeError, MalformedRequest: As ``texts``.
    """
    found = texts([*(column.values.field("value") for column in columns), *others])
    made = [
        pa.MapArray.from_arrays(column.offsets, column.values.field("key"), values)
        for column, values in zip(columns, found, strict=False)
    ]
    return made, found[len(columns) :]


def _merged(occurrences: pa.ListArray) -> pa.BinaryArray:
    """Join the occurrences of each value: they lie side by side, so new offsets are all it takes."""
    values = occurrences.values
    bounds = arrays.offsets(values)[arrays.offsets(occurrences)]
    return pa.Array.from_buffers(pa.binary(), len(occurrences), [None, pa.py_buffer(bounds), values.buffers()[2]])


def _decode(values: pa.BinaryArray) -> pa.StringArray:
    found = _Found(values)
    found.strings()
    found.booleans()
    found.integers()
    found.doubles()
    found.others()
    return found.texts()


class _Found:
    """Where each value's text is: an index into ``pieces``, one after the other."""

    def __init__(self, values: pa.BinaryArray) -> None:
        bounds = arrays.offsets(values)
        self.data = arrays.content(values)
        self.start = bounds[:-1]
        self.size = np.diff(bounds)
        self.tag = self.byte(self.start)
        self.second = self.byte(self.start + 1)
        self.index: Ints = np.full(len(values), -1)
        self.left: Bools = self.size > 0
        self.buffer = values.buffers()[2]
        self.bounds = bounds
        self.pieces: list[pa.BinaryArray] = []
        self.pieces_size = 0

    def byte(self, position: NDArray[np.integer]) -> NDArray[np.uint8]:
        if not len(self.data):
            return np.zeros(len(position), np.uint8)
        return self.data.take(position, mode="clip")

    def add(self, piece: pa.BinaryArray, at: Ints, index: Ints) -> None:
        self.index[at] = index + self.pieces_size
        self.left[at] = False
        self.pieces.append(piece)
        self.pieces_size += len(piece)

    def strings(self) -> None:
        """Tag, length in one or two bytes, text: one array of headers and texts in turn, without a copy."""
        header = np.zeros(len(self.start), np.int32)
        header[(self.tag == _STRING) & (self.size == self.second.astype(np.int32) + 2) & (self.second < _MORE)] = 2
        long = np.flatnonzero((self.tag == _STRING) & (self.second >= _MORE))
        third = self.byte(self.start[long] + 2)
        length = (self.second[long] - _MORE) + third.astype(np.int32) * _MORE
        header[long[(third < _MORE) & (self.size[long] == length + 3)]] = 3
        bounds = np.empty(2 * len(self.start) + 1, np.int32)
        bounds[0::2] = self.bounds
        bounds[1::2] = self.start + header
        buffers = [None, pa.py_buffer(bounds), self.buffer]
        at = np.flatnonzero(header)
        self.add(pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers), at, 2 * at + 1)

    def booleans(self) -> None:
        at = np.flatnonzero((self.tag == _BOOL) & (self.size == 2) & (self.second <= 1))  # noqa: PLR2004
        if len(at):
            self.add(_BOOLEANS, at, self.second[at].astype(np.int64))

    def integers(self) -> None:
        at = np.flatnonzero(self.tag == _INT)
        if not len(at):
            return
        start, size = self.start[at] + 1, self.size[at] - 1
        value = np.zeros(len(at), np.uint64)
        good = (size >= 1) & (size <= _LONGEST)
        for position in range(min(size.max(), _LONGEST)):
            byte = self.byte(start + position)
            inside = position < size
            good &= ~inside | ((byte >= _MORE) == (position < size - 1))
            value |= np.where(inside, byte & (_MORE - 1), 0).astype(np.uint64) << np.uint64(7 * position)
        text = pc.cast(pa.array(value[good].view(np.int64)), pa.string())
        self.add(text.cast(pa.binary()), at[good], np.arange(len(text)))

    def doubles(self) -> None:
        at = np.flatnonzero((self.tag == _DOUBLE) & (self.size == _DOUBLE_SIZE))
        if not len(at):
            return
        content = self.data[self.start[at][:, None] + np.arange(1, _DOUBLE_SIZE)]
        value = content.view(np.dtype("<f8"))[:, 0]
        text = pc.cast(pa.array(value), pa.string())
        if not np.isfinite(value).all():
            words = pa.array(np.select([np.isnan(value), value > 0], [NAN, INFINITY], f"-{INFINITY}"))
            text = pc.if_else(pa.array(np.isfinite(value)), text, words)
        self.add(text.cast(pa.binary()), at, np.arange(len(text)))

    def others(self) -> None:
        at = np.flatnonzero(self.left)
        if not len(at):
            return
        encoded = (self.data[s : s + n].tobytes() for s, n in zip(self.start[at], self.size[at], strict=True))
        text = [any_value_text(AnyValue.FromString(value)) for value in encoded]
        self.add(pa.array(text, pa.string()).cast(pa.binary()), at, np.arange(len(text)))

    def texts(self) -> pa.StringArray:
        pieces = pa.concat_arrays(self.pieces) if len(self.pieces) > 1 else self.pieces[0]
        return arrays.pick(pieces, self.index).cast(pa.string())
