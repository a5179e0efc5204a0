"""Bounds that both decoders keep, so that they refuse the same requests."""

from __future__ import annotations

from typing import Final

from icegate.errors import MalformedRequest

#: Arrays and maps within one another in an attribute value or body. protobuf allows 100 nested messages,
#: counted from the request; a bound that is always reached first does not depend on where the value stands.
MAX_NESTING: Final = 24

#: Bytes that what rows share (attributes of resource and scope, names, schema URLs) may take once each row
#: has its copy, per request and per call: below what 32-bit offsets can address, whichever column it is in.
MAX_EXPANSION: Final = 1 << 30


class TooExpansive(MalformedRequest):
    """Few bytes on the wire, too many as rows."""

    def __init__(self, size: int) -> None:
        super().__init__(f"shared attributes and names take {size} bytes as rows, more than {MAX_EXPANSION}")
