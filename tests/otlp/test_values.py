"""AnyValue as text, one by one and a column at a time."""

from __future__ import annotations

import json
import random
import struct

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from icegate.errors import MalformedRequest
from icegate.otlp import anyvalue
from icegate.otlp.limits import MAX_NESTING
from icegate.otlp.text import any_value_text
from otlp.messages import fill


def array(*values: AnyValue) -> AnyValue:
    return AnyValue(array_value=ArrayValue(values=values))


def kvlist(**values: AnyValue) -> AnyValue:
    return AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key=k, value=v) for k, v in values.items()]))


def string(text: str) -> AnyValue:
    return AnyValue(string_value=text)


def double(value: float) -> AnyValue:
    return AnyValue(double_value=value)


def nested(levels: int) -> AnyValue:
    value = AnyValue(int_value=1)
    for level in range(levels):
        value = array(value) if level % 2 else kvlist(k=value)
    return value


def columnar_texts(encoded: list[bytes]) -> list[str | None]:
    """Each encoding as one occurrence of its field."""
    values = pa.array([[value] for value in encoded], pa.list_(pa.binary()))
    (texts,) = anyvalue.texts([values])
    result: list[str | None] = texts.to_pylist()
    return result


TEXTS = [
    (AnyValue(), None),
    (AnyValue(string_value_strindex=3), None),
    (string(""), ""),
    (string("zürich 𝄞"), "zürich 𝄞"),
    (string('"'), '"'),
    (AnyValue(bool_value=True), "true"),
    (AnyValue(bool_value=False), "false"),
    (AnyValue(int_value=0), "0"),
    (AnyValue(int_value=127), "127"),
    (AnyValue(int_value=128), "128"),
    (AnyValue(int_value=-1), "-1"),
    (AnyValue(int_value=-1 << 63), "-9223372036854775808"),
    (AnyValue(int_value=(1 << 63) - 1), "9223372036854775807"),
    (double(1), "1"),
    (double(-0.0), "-0"),
    (double(1.5e-7), "1.5e-7"),
    (double(1e300), "1e+300"),
    (double(0.1), "0.1"),
    (double(float("nan")), "NaN"),
    (double(float("inf")), "Infinity"),
    (double(float("-inf")), "-Infinity"),
    (AnyValue(bytes_value=b""), ""),
    (AnyValue(bytes_value=b"\x00\xff\x10"), "AP8Q"),
    (array(), "[]"),
    (kvlist(), "{}"),
    (
        array(AnyValue(), string('a"\n'), AnyValue(bool_value=True), AnyValue(int_value=-5)),
        '[null,"a\\"\\n",true,-5]',
    ),
    (array(double(1), double(1.5e-7), double(float("nan"))), '[1,1.5e-7,"NaN"]'),
    (array(double(float("inf")), double(float("-inf"))), '["Infinity","-Infinity"]'),
    (kvlist(b=AnyValue(bytes_value=b"\x00\xff\x10"), ü=kvlist(x=array())), '{"b":"AP8Q","ü":{"x":[]}}'),
    (
        AnyValue(
            kvlist_value=KeyValueList(
                values=[KeyValue(key="z", value=string("1")), KeyValue(key="a"), KeyValue(key="z")]
            )
        ),
        '{"z":"1","a":null,"z":null}',
    ),
]


@pytest.mark.parametrize(("value", "text"), TEXTS)
def test_text(value: AnyValue, text: str | None) -> None:
    assert any_value_text(value) == text
    assert columnar_texts([value.SerializeToString()]) == [text]


def test_columns_keep_their_places() -> None:
    columns = [
        [value.SerializeToString() for value, _ in TEXTS],
        [],
        [b""],
        [string("last").SerializeToString()],
    ]
    arrays = [pa.array([[v] for v in column], pa.list_(pa.binary())) for column in columns]
    assert [t.to_pylist() for t in anyvalue.texts(arrays)] == [[t for _, t in TEXTS], [], [None], ["last"]]


def test_occurrences_merge() -> None:
    """Parts of an array add up, what comes later replaces another kind, and an empty part changes nothing."""
    one, two = array(string("a")).SerializeToString(), array(string("b")).SerializeToString()
    text, blank = string("t").SerializeToString(), b""
    values = pa.array([[one, two], [one, text], [text, blank], []], pa.list_(pa.binary()))
    assert anyvalue.texts([values])[0].to_pylist() == ['["a","b"]', "t", "t", None]


@pytest.mark.parametrize("size", [126, 127, 128, 129, 16382, 16383, 16384, 16385, 70000])
def test_length_boundaries(size: int) -> None:
    text = "é" + "x" * (size - 2)
    assert columnar_texts([string(text).SerializeToString(), b"", string("z").SerializeToString()]) == [
        text,
        None,
        "z",
    ]


UNUSUAL = [
    b"\x0a\x81\x00a",  # length in more bytes than needed
    b"\x0a\x80\x00",
    b"\x0a\x81\x80\x00a",
    b"\x10\x02",  # booleans other than 0 and 1
    b"\x10\x80\x01",
    b"\x10\x80\x00",
    b"\x18\x80\x00",  # integers in more bytes than needed, and with bits beyond 64
    b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x18\x01\x18\x02",  # several fields
    b"\x10\x01\x18\x02",
    b"\x0a\x01a\x0a\x01b",
    b"\x0a\x01a\x20\x01",  # another wire type: an unknown field
    b"\xa0\x06\x01",
    b"\x20\x01",
    b"\x21" + struct.pack("<d", 2.5) + b"\x10\x01",
    # A length in three bytes, and an unknown field that ends where the first two bytes alone would say.
    b"\x0a\x81\x80\x00a" + b"\xa2\x06\xfb\x7f" + bytes(16379),
]
MALFORMED = [
    b"\x0a",
    b"\x0a\x05abc",
    b"\x0a\x01\xff",
    b"\x0a\x03\xed\xa0\x80",
    b"\x0a\x81",
    b"\x10",
    b"\x18",
    b"\x18\x80",
    b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x21\x00\x00",
    b"\x2a\x01\x0a",
    b"\x00\x01",
    b"\x0b",
    b"\x80",
]


@pytest.mark.parametrize("encoded", UNUSUAL)
def test_unusual_encodings(encoded: bytes) -> None:
    beside = string("beside").SerializeToString()
    text = any_value_text(AnyValue.FromString(encoded))
    assert columnar_texts([beside, encoded, beside]) == ["beside", text, "beside"]


@pytest.mark.parametrize("encoded", MALFORMED)
def test_malformed_encodings(encoded: bytes) -> None:
    with pytest.raises(DecodeError):
        AnyValue.FromString(encoded)
    with pytest.raises((ValueError, DecodeError)):
        columnar_texts([string("beside").SerializeToString(), encoded])


@given(rng=st.integers(0, 2**32).map(random.Random))
@settings(max_examples=100, deadline=None)
def test_columns_as_one_by_one(rng: random.Random) -> None:
    values = [AnyValue() for _ in range(20)]
    for value in values:
        fill(value, rng, 6)
    assert columnar_texts([v.SerializeToString() for v in values]) == [any_value_text(v) for v in values]


@given(encoded=st.one_of(st.binary(max_size=12), st.binary(max_size=10).map(lambda b: b"\x18" + b)))
@settings(max_examples=200, deadline=None)
def test_any_bytes(encoded: bytes) -> None:
    try:
        expected = [any_value_text(AnyValue.FromString(encoded)), "a"]
    except DecodeError:
        with pytest.raises((ValueError, DecodeError)):
            columnar_texts([encoded, b"\x0a\x01a"])
    else:
        assert columnar_texts([encoded, b"\x0a\x01a"]) == expected


def test_nesting_is_bounded() -> None:
    text = any_value_text(nested(MAX_NESTING))
    assert text is not None
    assert json.loads(text)
    with pytest.raises(MalformedRequest, match="24 deep"):
        any_value_text(nested(MAX_NESTING + 1))
