"""Random OTLP requests, from the messages' own descriptors, and how to compare what decoders make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf.descriptor import FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from icegate.tables import segment_schema

if TYPE_CHECKING:
    import random

    from google.protobuf.message import Message

    from icegate.otlp import Decoded

REQUESTS: Final[dict[str, type[Message]]] = {
    "logs": ExportLogsServiceRequest,
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}
#: Resource, scope, (metric,) record, each with attributes, and values nested three deep within those.
DEEPEST: Final = 14

_UNSIGNED: Final = (0, 1, 999, 1000, 1_790_000_000_123_456_789, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_SIGNED: Final = (0, 1, -1, 63, 64, 127, 128, 16383, 16384, 1 << 35, (1 << 63) - 1, -1 << 63)
_DOUBLES: Final = (0.0, -0.0, 1.0, 0.1, 1.5e-7, 1e300, 123456.789, float("nan"), float("inf"), float("-inf"))
_TEXTS: Final = (
    *("", "a", "service.name", "service.name", "zürich 日本 𝄞", '"\\/\n\t\x00\x7f', "null"),
    *("x" * size for size in (126, 127, 128, 129)),
)
_LONG_TEXTS: Final = tuple("é" + "y" * size for size in (16380, 16381, 16382, 16383, 20000))
_IDS: Final = (b"", b"\0" * 16, bytes(range(16)), b"\xab" * 8, b"\xff" * 8, b"\x0f", b"\1" * 21)
_SCALARS: Final[dict[int, tuple[Any, ...]]] = {
    FieldDescriptor.TYPE_FIXED64: _UNSIGNED,
    FieldDescriptor.TYPE_UINT64: _UNSIGNED,
    FieldDescriptor.TYPE_SFIXED64: _SIGNED,
    FieldDescriptor.TYPE_INT64: _SIGNED,
    FieldDescriptor.TYPE_FIXED32: (0, 1, 257, (1 << 32) - 1),
    FieldDescriptor.TYPE_UINT32: (0, 1, 257, (1 << 32) - 1),
    FieldDescriptor.TYPE_INT32: (0, 1),
    FieldDescriptor.TYPE_SINT32: (0, 1, -1, (1 << 31) - 1, -1 << 31),
    FieldDescriptor.TYPE_ENUM: (0, 1, 2, 24, -1, 99),
    FieldDescriptor.TYPE_BOOL: (False, True),
    FieldDescriptor.TYPE_DOUBLE: _DOUBLES,
    FieldDescriptor.TYPE_BYTES: _IDS,
}


def payload(topic: str, rng: random.Random) -> bytes:
    """A request of any shape, at times an empty one."""
    message = REQUESTS[topic]()
    fill(message, rng, DEEPEST)
    return message.SerializeToString()


def fill(message: Message, rng: random.Random, levels: int) -> None:
    """Set about two thirds of the fields, repeated ones up to three times, messages this many levels deep."""
    for field in message.DESCRIPTOR.fields:
        oneof = field.containing_oneof
        if rng.random() < 1 / 3 or (field.message_type and not levels):
            continue
        if oneof and len(oneof.fields) > 1 and message.WhichOneof(oneof.name) and rng.random() < 2 / 3:
            continue
        values = getattr(message, field.name)
        for _ in range(rng.randrange(4) if field.is_repeated else 1):
            if not field.message_type:
                if field.is_repeated:
                    values.append(_scalar(field, rng))
                else:
                    setattr(message, field.name, _scalar(field, rng))
            elif field.is_repeated:
                fill(values.add(), rng, levels - 1)
            else:
                values.SetInParent()
                fill(values, rng, levels - 1)


def _scalar(field: Any, rng: random.Random) -> Any:
    if field.type == FieldDescriptor.TYPE_STRING:
        return rng.choice(_LONG_TEXTS if rng.random() < 0.01 else _TEXTS)
    return rng.choice(_SCALARS[field.type])


def assert_same(topic: str, one: Decoded, other: Decoded) -> None:
    """See that two decoders agree on every row (NaN equals NaN, -0.0 is not 0.0) and every refusal."""
    for decoded in (one, other):
        assert decoded.table.schema.equals(segment_schema(topic), check_metadata=True)
        decoded.table.validate(full=True)
        assert sum(decoded.rows) == len(decoded.table)
    assert list(one.rows) == list(other.rows)
    assert sorted(one.failures) == sorted(other.failures)
    for name in one.table.schema.names:
        assert repr(one.table[name].to_pylist()) == repr(other.table[name].to_pylist()), name
