"""Refusals as OTLP clients understand them: ``google.rpc.Status`` with the details that steer their retries."""

from __future__ import annotations

from typing import Final

from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status

from icegate.errors import IceGateError, MalformedRequest

#: Seconds a client is asked to wait before it sends a refused request again.
RETRY_DELAY: Final = 1


def status_of(error: Exception) -> Status:
    """The Status for an error: RetryInfo if a retry can cure it, BadRequest if the payload cannot be decoded.

    An error that is not ours is INTERNAL and says nothing of itself.
    """
    if not isinstance(error, IceGateError):
        return Status(code=Code.INTERNAL, message="internal error; the server's log has the details")
    status = Status(code=Code.Value(error.grpc_status), message=str(error))
    if error.retryable:
        status.details.append(_packed(RetryInfo(retry_delay=Duration(seconds=RETRY_DELAY))))
    if isinstance(error, MalformedRequest):
        violation = BadRequest.FieldViolation(field="body", description=str(error))
        status.details.append(_packed(BadRequest(field_violations=[violation])))
    return status


def _packed(detail: RetryInfo | BadRequest) -> Any:
    packed = Any()
    packed.Pack(detail)
    return packed
