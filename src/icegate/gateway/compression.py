"""Bounded decompression: a small body must not become a large one."""

from __future__ import annotations

from isal import isal_zlib
from isal.igzip_lib import IsalError

from icegate.errors import MalformedRequest, RequestTooLarge

_GZIP_WINDOW = 31  # zlib's code for "gzip wrapper, 32 KiB window"
_PIECE = 16 * 1024


def gunzip(data: bytes, limit: int) -> bytes:
    """Inflate a gzip body of one or more members.

    Raises:
        RequestTooLarge: more than ``limit`` bytes come out.
        MalformedRequest: not gzip, or cut off.
    """
    out = bytearray()
    rest = memoryview(data)
    member = None
    while rest:
        # Piece by piece: what follows a member is copied at its end, and there may be millions of members.
        piece, member = rest[:_PIECE], member or isal_zlib.decompressobj(_GZIP_WINDOW)
        try:
            out += member.decompress(piece, limit + 1 - len(out))
        except IsalError as error:  # type: ignore[misc]  # its stub forgets the base class
            raise MalformedRequest(f"the body is not valid gzip: {error}") from error
        if len(out) > limit:
            raise RequestTooLarge(f"the body inflates to more than {limit} bytes")
        rest = rest[len(piece) - len(member.unused_data) :]
        if member.eof:
            member = None
    if member is not None:
        raise MalformedRequest("the gzip body is cut off")
    return bytes(out)
