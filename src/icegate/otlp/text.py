"""One attribute value or body as text."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from icegate.errors import MalformedRequest
from icegate.otlp.limits import MAX_NESTING

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue

NAN: Final = "NaN"
INFINITY: Final = "Infinity"


def any_value_text(value: AnyValue) -> str | None:
    """The text of an ``AnyValue``; None if no value is set.

    A string stands as it is, bytes as base64, numbers and booleans as in JSON with doubles in Arrow's
    spelling (``1``, ``1.5e-7``), the three that JSON lacks as ``NaN``, ``Infinity`` and ``-Infinity``. Arrays
    and maps are compact JSON: within them bytes and those three are JSON strings, an unset value is ``null``,
    and keys keep the order and the repetitions they were sent with. Indices into a string table, which only
    profiles have, count as unset.

    Raises:
        MalformedRequest: Arrays and maps are nested deeper than ``MAX_NESTING``.
    """
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bytes_value":
            return _base64(value.bytes_value)
        case "double_value":
            return double_text(value.double_value)
        case None | "string_value_strindex":
            return None
        case _:
            return _json(value, MAX_NESTING)


def double_text(value: float) -> str:
    """A double in Arrow's spelling, or one of the three words."""
    if math.isnan(value):
        return NAN
    if math.isinf(value):
        return INFINITY if value > 0 else f"-{INFINITY}"
    text: str = pa.array([value], pa.float64()).cast(pa.string())[0].as_py()
    return text


def _json(value: AnyValue, levels: int) -> str:
    match value.WhichOneof("value"):
        case "bool_value":
            text = "true" if value.bool_value else "false"
        case "int_value":
            text = str(value.int_value)
        case "double_value" if math.isfinite(value.double_value):
            text = double_text(value.double_value)
        case "array_value" | "kvlist_value" if levels == 0:
            raise MalformedRequest(f"a value nests arrays and maps more than {MAX_NESTING} deep")
        case "array_value":
            text = f"[{','.join(_json(item, levels - 1) for item in value.array_value.values)}]"
        case "kvlist_value":
            items = value.kvlist_value.values
            text = f"{{{','.join(f'{_quoted(i.key)}:{_json(i.value, levels - 1)}' for i in items)}}}"
        case _:
            plain = any_value_text(value)
            text = "null" if plain is None else _quoted(plain)
    return text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
