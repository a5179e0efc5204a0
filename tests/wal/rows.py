"""Rows and segments to test with."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icegate.tables import segment_schema
from icegate.wal import Batch, Encoded, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EPOCH = 1_700_000_000_000_000


def rows(topic: str, each: Iterable[tuple[str, int, dict[str, Any]]]) -> pa.Table:
    """A table in the topic's schema from (tenant, timestamp, other columns)."""
    schema = segment_schema(topic)
    return pa.Table.from_pylist(
        [{"tenant_id": tenant, "timestamp": time, "ingested_at": EPOCH, **other} for tenant, time, other in each],
        schema=schema,
    )


def segment(
    *counts: tuple[str, int], topic: str = "logs", attempt: str | None = None, keys: Sequence[str | None] = ()
) -> Encoded:
    """A segment of so many rows a tenant, a batch each."""
    batches = [Batch(tenant, count, keys[i] if keys else None) for i, (tenant, count) in enumerate(counts)]
    table = rows(topic, ((tenant, EPOCH + n, {}) for tenant, count in counts for n in range(count)))
    return encode(topic, table, batches, attempt=attempt or str(uuid.uuid4()), writer="test", created=EPOCH)


_TEMPLATE = segment(("tenant", 1), attempt="0" * 36)


def cheap(attempt: str) -> Encoded:
    """A real one-row segment with this attempt id, without encoding it anew each time.

    The id is replaced in place, so it has to be as long as a UUID.
    """
    assert len(attempt) == 36
    from dataclasses import replace

    data = _TEMPLATE.data.replace(b"0" * 36, attempt.encode())
    return Encoded(replace(_TEMPLATE.footer, attempt=attempt), data)
