"""The OTLP messages as ptars reads them.

ptars turns each field of a message type into Arrow arrays, which cannot be done for ``AnyValue``: it contains
itself. So the descriptors are copied and every ``AnyValue`` field becomes ``repeated bytes``: the same bytes
on the wire, left for ``anyvalue`` to decode. Repeated, because protobuf merges the occurrences of a message
field, and joining their bytes is the same, while of a ``bytes`` field only the last occurrence would remain.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import ptars
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.message import Message

_REQUESTS: Final = {
    "logs": logs_service_pb2.ExportLogsServiceRequest.DESCRIPTOR,
    "traces": trace_service_pb2.ExportTraceServiceRequest.DESCRIPTOR,
    "metrics": metrics_service_pb2.ExportMetricsServiceRequest.DESCRIPTOR,
}
_ANY_VALUE: Final = ".opentelemetry.proto.common.v1.AnyValue"
#: Recursive, and referred to by nothing once the fields are bytes.
_DROPPED_MESSAGES: Final = {"AnyValue", "ArrayValue", "KeyValueList"}


@cache
def handler(topic: str) -> Any:
    """The decoder that ptars has of a topic's requests: a list of payloads -> a record batch, a row each."""
    descriptor = _edited(topic)
    return ptars.HandlerPool([descriptor.file]).get_for_message(descriptor)


@cache
def checker(topic: str) -> type[Message]:
    """The same message for protobuf's own parser, to tell what ptars may be given."""
    return GetMessageClass(_edited(topic))


@cache
def _edited(topic: str) -> Descriptor:
    original = _REQUESTS[topic]
    pool = DescriptorPool()
    _copy(original.file, pool, set())
    return pool.FindMessageTypeByName(original.full_name)


def _copy(file: FileDescriptor, pool: DescriptorPool, done: set[str]) -> None:
    if file.name in done:
        return
    done.add(file.name)
    for dependency in file.dependencies:
        _copy(dependency, pool, done)
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    for message in list(proto.message_type):
        if message.name in _DROPPED_MESSAGES:
            proto.message_type.remove(message)
        else:
            _edit(message)
    pool.Add(proto)


def _edit(message: DescriptorProto) -> None:
    for nested in message.nested_type:
        _edit(nested)
    for field in message.field:
        if field.type_name == _ANY_VALUE:
            field.type = FieldDescriptorProto.TYPE_BYTES
            field.label = FieldDescriptorProto.LABEL_REPEATED
            field.ClearField("type_name")
