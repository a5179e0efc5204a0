"""OTLP requests -> Arrow.

``columnar`` decodes with ptars and ``plain`` without, with the same result at several times the cost. A ptars
that is missing, or does not agree with ``plain`` on a small sample, is not used.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Final

from icegate.otlp import plain
from icegate.otlp.panics import panicked
from icegate.otlp.request import Decoded, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Decoded", "Request", "decode"]

_logger: Final = logging.getLogger(__name__)


def decode(topic: str, requests: Sequence[Request]) -> Decoded:
    """Decode a list of OTLP requests of one topic; a request that fails harms no other.

    Args:
        topic: ``logs``, ``traces`` or ``metrics``.
        requests: The requests; tenants may be mixed.
    """
    return _decoder()(topic, requests)


@cache
def _decoder() -> Callable[[str, Sequence[Request]], Decoded]:
    try:
        from icegate.otlp import columnar, selftest

        selftest.run(columnar.batch)
    except BaseException as error:
        if not isinstance(error, Exception) and not panicked(error):
            raise
        _logger.warning("decoding OTLP the slow way: ptars does not work here", exc_info=error)
        return plain.decode
    return columnar.decode
